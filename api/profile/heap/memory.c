/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/heap/memory.h"

#include <math.h>
#include <string.h>

static size_t find(const struct sonde_profile *profile, const char *name, const char *old_name) {
    size_t index = sonde_profile_find_type(profile, name);
    if (index == SONDE_PROFILE_NO_TYPE && old_name)
        index = sonde_profile_find_type(profile, old_name);
    return index;
}

static bool is_bytes(const struct sonde_profile *profile, size_t index) {
    return index != SONDE_PROFILE_NO_TYPE &&
           strcmp(sonde_profile_type(profile, index).unit, "bytes") == 0;
}

bool sonde_memory_types(const struct sonde_profile *profile, struct sonde_memory_types *types) {
    struct sonde_memory_types found = {
        .alloc_objects = find(profile, "alloc_objects", NULL),
        .alloc_space = find(profile, "alloc_space", NULL),
        .inuse_objects = find(profile, "inuse_objects", "objects"),
        .inuse_space = find(profile, "inuse_space", "space"),
    };
    if (!is_bytes(profile, found.alloc_space))
        found.alloc_space = found.alloc_objects = SONDE_PROFILE_NO_TYPE;
    if (!is_bytes(profile, found.inuse_space))
        found.inuse_space = found.inuse_objects = SONDE_PROFILE_NO_TYPE;
    if (types)
        *types = found;
    return found.alloc_space != SONDE_PROFILE_NO_TYPE || found.inuse_space != SONDE_PROFILE_NO_TYPE;
}

double sonde_memory_period(const struct sonde_profile *profile) {
    const struct sonde_profile_info *info = sonde_profile_info(profile);
    bool is_known = info->period > 1 && strcmp(info->period_type.unit, "bytes") == 0;
    return is_known ? (double)info->period : 1;
}

double sonde_memory_samples(double objects, double bytes, double period) {
    if (objects <= 0 || bytes <= 0)
        return 0;
    return period <= 1 ? objects : -objects * expm1(-(bytes / objects) / period);
}

bool sonde_memory_pair(const struct sonde_profile *profile, size_t type_index,
                       struct sonde_memory_pair *pair) {
    struct sonde_memory_types types;
    if (!sonde_memory_types(profile, &types))
        return false;
    bool has_inuse = types.inuse_space != SONDE_PROFILE_NO_TYPE;
    bool is_allocated =
        !has_inuse || (types.alloc_space != SONDE_PROFILE_NO_TYPE &&
                       (type_index == types.alloc_space || type_index == types.alloc_objects));
    pair->space = is_allocated ? types.alloc_space : types.inuse_space;
    pair->objects = is_allocated ? types.alloc_objects : types.inuse_objects;
    pair->period = sonde_memory_period(profile);
    pair->is_counted = !is_allocated || !has_inuse;
    return true;
}

double sonde_memory_sampled(const struct sonde_memory_pair *pair,
                            const struct sonde_sample *sample) {
    if (pair->is_counted && sample->sampled)
        return (double)sample->sampled;
    if (pair->objects == SONDE_PROFILE_NO_TYPE)
        return 0;
    return sonde_memory_samples((double)sample->values[pair->objects],
                                (double)sample->values[pair->space], pair->period);
}

double sonde_memory_probability(const struct sonde_memory_pair *pair,
                                const struct sonde_sample *sample) {
    if (pair->objects == SONDE_PROFILE_NO_TYPE || sample->values[pair->objects] <= 0)
        return pair->period > 1 ? 0 : 1;
    double objects = (double)sample->values[pair->objects];
    return sonde_memory_samples(objects, (double)sample->values[pair->space], pair->period) /
           objects;
}
