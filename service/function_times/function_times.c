/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of a profile are compared with the list once; then each sample sets bits for the
 * listed functions on its stack, so that recursion counts once. The profile is read without the
 * lock. */
#include "service/function_times/function_times.h"

#include "service/locks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TARGET_BYTES 64
#define OTHER        "other"

struct target_times {
    char name[TARGET_BYTES];
    uint64_t cpu_ns[FUNCTION_TIMES_FUNCTIONS];
};

struct function_times {
    char *names[FUNCTION_TIMES_FUNCTIONS];
    size_t count, max_targets;
    struct lock lock; /* guards what follows */
    struct target_times **targets;
    size_t target_count;
};

/* ---- The list ---- */

static sonde_err add_name(struct function_times *times, const char *name, struct sonde_diag *diag) {
    size_t len = strlen(name);
    for (size_t i = 0; i < times->count; i++)
        if (strcmp(times->names[i], name) == 0)
            return SONDE_OK;
    if (len == 0 || len > FUNCTION_TIMES_NAME)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "metric-function: \"%.40s\" has %zu bytes; a function's name has 1 to %d",
                          name, len, FUNCTION_TIMES_NAME);
    if (times->count == FUNCTION_TIMES_FUNCTIONS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "metric-function: at most %d functions",
                          FUNCTION_TIMES_FUNCTIONS);
    times->names[times->count] = strdup(name);
    return times->names[times->count++] ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

sonde_err function_times_create(const char *const *names, size_t count,
                                struct function_times **created, struct sonde_diag *diag) {
    struct function_times *times = calloc(1, sizeof *times);
    sonde_err err = times ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    *created = NULL;
    for (size_t i = 0; i < count && !err; i++)
        err = add_name(times, names[i], diag);
    if (!err) {
        times->max_targets = FUNCTION_TIMES_SUMS / (times->count ? times->count : 1);
        times->targets = calloc(times->max_targets, sizeof *times->targets);
        err = times->targets ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    }
    if (times)
        lock_init(&times->lock, LOCK_FUNCTION_TIMES);
    if (err)
        function_times_destroy(times);
    else
        *created = times;
    return err;
}

void function_times_destroy(struct function_times *times) {
    if (!times)
        return;
    for (size_t i = 0; i < times->target_count; i++)
        free(times->targets[i]);
    for (size_t i = 0; i < times->count; i++)
        free(times->names[i]);
    lock_finish(&times->lock);
    free(times->targets);
    free(times);
}

/* ---- A profile ---- */

static bool is_function(const char *name, const char *wanted) {
    size_t len = strlen(wanted);
    return strncmp(name, wanted, len) == 0 && (name[len] == 0 || name[len] == '(');
}

/* The number of the name on the list + 1; 0 = none. */
static uint8_t find_function(const struct function_times *times, const char *name) {
    for (size_t i = 0; i < times->count; i++)
        if (name[0] == times->names[i][0] && is_function(name, times->names[i]))
            return (uint8_t)(i + 1);
    return 0;
}

struct counting {
    const struct sonde_profile *profile;
    const uint8_t *listed; /* by function id: number on the list + 1 */
    size_t type;
    uint64_t cpu_ns[FUNCTION_TIMES_FUNCTIONS];
};

static void mark_location(const struct counting *counting, uint32_t id, bool *marks) {
    const struct sonde_location *location = sonde_profile_location(counting->profile, id);
    for (uint32_t i = 0; location && i < location->line_count; i++)
        marks[counting->listed[location->lines[i].function]] = true;
}

static void count_sample(struct counting *counting, const struct sonde_sample *sample) {
    bool marks[FUNCTION_TIMES_FUNCTIONS + 1] = {false};
    int64_t value = sample->values[counting->type];
    for (uint32_t i = 0; i < sample->location_count; i++)
        mark_location(counting, sample->locations[i], marks);
    for (size_t i = 0; i < FUNCTION_TIMES_FUNCTIONS && value > 0; i++)
        if (marks[i + 1])
            counting->cpu_ns[i] += (uint64_t)value;
}

/* False when out of memory, or if it is not a CPU profile. */
static bool count_profile(const struct function_times *times, struct counting *counting) {
    const struct sonde_profile *profile = counting->profile;
    size_t functions = sonde_profile_function_count(profile);
    uint8_t *listed = calloc(functions + 1, 1);
    counting->listed = listed;
    counting->type = sonde_profile_find_type(profile, "cpu");
    bool is_good = listed && counting->type != SONDE_PROFILE_NO_TYPE;
    for (uint32_t id = 1; is_good && id <= functions; id++) {
        const struct sonde_function *function = sonde_profile_function(profile, id);
        listed[id] = find_function(times, sonde_profile_text(profile, function->name));
    }
    for (size_t i = 0; is_good && i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        count_sample(counting, &sample);
    }
    free(listed);
    return is_good;
}

/* ---- The sums ---- */

static struct target_times *add_target(struct function_times *times, const char *name) {
    struct target_times *target = calloc(1, sizeof *target);
    if (!target)
        return NULL;
    snprintf(target->name, sizeof target->name, "%s", name);
    times->targets[times->target_count++] = target;
    return target;
}

static struct target_times *find_target(struct function_times *times, const char *name) {
    bool is_last_place = times->target_count + 1 >= times->max_targets;
    for (size_t i = 0; i < times->target_count; i++)
        if (strcmp(times->targets[i]->name, name) == 0)
            return times->targets[i];
    if (is_last_place && strcmp(name, OTHER) != 0)
        return find_target(times, OTHER);
    return times->target_count < times->max_targets ? add_target(times, name) : NULL;
}

void function_times_add(struct function_times *times, const char *target,
                        const struct sonde_profile *profile) {
    struct counting counting = {.profile = profile};
    if (!count_profile(times, &counting))
        return;
    lock_take(&times->lock);
    struct target_times *sums = find_target(times, target);
    for (size_t i = 0; sums && i < times->count; i++)
        sums->cpu_ns[i] += counting.cpu_ns[i];
    lock_drop(&times->lock);
}

void function_times_list(struct function_times *times,
                         void (*on_time)(void *context, const struct function_time *time),
                         void *context) {
    lock_take(&times->lock);
    for (size_t i = 0; i < times->target_count; i++)
        for (size_t k = 0; k < times->count; k++) {
            const struct function_time time = {times->targets[i]->name, times->names[k],
                                               times->targets[i]->cpu_ns[k]};
            on_time(context, &time);
        }
    lock_drop(&times->lock);
}
