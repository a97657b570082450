/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/otlp/event.h"

#include "api/profile/event.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *unit;
    int64_t scale;
    bool is_bytes;
} units[] = {
    {"nanoseconds", 1, false},
    {"microseconds", 1000, false},
    {"milliseconds", 1000000, false},
    {"seconds", 1000000000, false},
    {"bytes", 1, true},
};

static bool find_unit(const char *unit, int64_t *scale, bool *is_bytes) {
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        *scale = units[i].scale;
        *is_bytes = units[i].is_bytes;
        if (strcmp(unit, units[i].unit) == 0)
            return true;
    }
    return false;
}

static const char *event_name(const char *type, bool is_bytes, struct sonde_arena *arena) {
    char name[256];
    const struct sonde_event *known = sonde_event_of_type(type);
    if (known)
        return known->name;
    snprintf(name, sizeof name, "%s%.200s", is_bytes ? "mem-" : "", type);
    return sonde_arena_dup(arena, name, strlen(name));
}

sonde_err otlp_event_of(const otlp_dictionary *dictionary, const otlp_profile *profile,
                        struct sonde_arena *arena, struct otlp_event *event,
                        struct sonde_diag *diag) {
    const otlp_value_type *values = profile->sample_type, *per = profile->period_type;
    const char *type = values ? otlp_string(dictionary, values->type_strindex) : "";
    const char *unit = values ? otlp_string(dictionary, values->unit_strindex) : "";
    const char *period_unit = per ? otlp_string(dictionary, per->unit_strindex) : "";
    int64_t period_scale = 0, scale = 1;
    bool is_bytes = false, period_is_bytes = false;
    *event = (struct otlp_event){.is_count = strcmp(unit, "count") == 0};
    bool has_period = profile->period > 0 &&
                      find_unit(period_unit, &period_scale, &period_is_bytes) &&
                      !__builtin_mul_overflow(profile->period, period_scale, &event->per_event);
    if (!has_period)
        event->per_event = 0;
    /* Counts of samples are counts of what the period measures. */
    if (event->is_count && has_period) {
        type = otlp_string(dictionary, per->type_strindex);
        scale = event->per_event;
        is_bytes = period_is_bytes;
    } else if (event->is_count || !type[0] || !find_unit(unit, &scale, &is_bytes)) {
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "a profile of \"%.64s\" in \"%.64s\" cannot be stored: history keeps "
                          "times, bytes, and counts with a period in one of these",
                          type, unit);
    }
    event->scale = scale;
    event->period_ns = is_bytes ? 0 : (uint64_t)event->per_event;
    event->name = event_name(type[0] ? type : sonde_events[SONDE_ON_CPU].name, is_bytes, arena);
    return event->name ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

static int64_t multiply(int64_t count, int64_t scale) {
    int64_t result;
    if (count <= 0 || scale <= 0)
        return 0;
    return __builtin_mul_overflow(count, scale, &result) ? INT64_MAX : result;
}

int64_t otlp_event_value(const struct otlp_event *event, const otlp_sample *sample,
                         uint64_t *counted) {
    int64_t sum = 0;
    for (size_t i = 0; i < sample->n_values; i++)
        if (sample->values[i] > 0 && __builtin_add_overflow(sum, sample->values[i], &sum))
            sum = INT64_MAX;
    *counted = sample->n_timestamps_unix_nano;
    if (sample->n_values == 0)
        return multiply((int64_t)sample->n_timestamps_unix_nano, event->per_event);
    int64_t value = multiply(sum, event->scale);
    if (event->is_count)
        *counted = (uint64_t)sum;
    else if (*counted == 0)
        *counted = event->per_event > 0 ? (uint64_t)(value / event->per_event) : 1;
    return value;
}
