/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/families/grafana/profile_types.h"

#include <string.h>

#define ROW(event, name, type, unit, period, period_unit)                                   \
    {                                                                                       \
        event, name ":" type ":" unit ":" period ":" period_unit, name, type, unit, period, \
            period_unit                                                                     \
    }

const struct profile_type profile_types[PROFILE_TYPE_COUNT] = {
    ROW("on-cpu", "process_cpu", "cpu", "nanoseconds", "cpu", "nanoseconds"),
    ROW("off-cpu", "off_cpu", "off_cpu", "nanoseconds", "off_cpu", "nanoseconds"),
    ROW("mem-alloc", "memory", "alloc_space", "bytes", "space", "bytes"),
    ROW("mem-inuse", "memory", "inuse_space", "bytes", "space", "bytes"),
};

const struct profile_type *profile_type_of_event(const char *event) {
    for (size_t i = 0; i < PROFILE_TYPE_COUNT; i++)
        if (strcmp(profile_types[i].event, event) == 0)
            return &profile_types[i];
    return NULL;
}

const struct profile_type *profile_type_find(struct sonde_slice id) {
    for (size_t i = 0; i < PROFILE_TYPE_COUNT; i++)
        if (sonde_slice_equals(id, profile_types[i].id))
            return &profile_types[i];
    return NULL;
}

const char *profile_type_event(struct sonde_slice id) {
    const struct profile_type *type = profile_type_find(id);
    return type ? type->event : PROFILE_TYPE_NONE;
}
