/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/select/idle.h"
#include "api/error.h"
#include "api/profile/copy.h"
#include "api/profile/event.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_PERCENT 90
#define COMMENT      "idle: "

/* A sample by thread and stack. */
struct place {
    uint32_t thread;  /* string id of its name */
    int64_t tid;      /* 0 = not known */
    uint32_t process; /* without a tid: the outermost frame, which may be a process */
    const uint32_t *locations;
    uint32_t location_count;
    size_t sample;
    int64_t ns;
};

struct idle {
    struct place *places; /* of samples with a thread, sorted by thread and stack */
    size_t count;
    bool *is_wanted; /* by sample */
    size_t threads;
    int64_t ns;
};

static int compare_threads(const struct place *a, const struct place *b) {
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    return (a->tid > b->tid) - (a->tid < b->tid);
}

static int compare_stacks(const struct place *a, const struct place *b) {
    if (a->location_count != b->location_count)
        return a->location_count < b->location_count ? -1 : 1;
    return memcmp(a->locations, b->locations, a->location_count * sizeof *a->locations);
}

static int compare(const void *a, const void *b) {
    int order = compare_threads(a, b);
    return order ? order : compare_stacks(a, b);
}

/* False: the sample has no thread. */
static bool read_place(const struct sonde_profile *profile, size_t index, size_t type,
                       struct place *place) {
    struct sonde_sample sample = sonde_profile_sample(profile, index);
    bool has_thread = false;
    *place = (struct place){.locations = sample.locations,
                            .location_count = sample.location_count,
                            .sample = index,
                            .ns = sample.values[type]};
    for (uint32_t i = 0; i < sample.label_count; i++) {
        const struct sonde_label *label = &sample.labels[i];
        const char *key = sonde_profile_text(profile, label->key);
        bool is_name = label->str && strcmp(key, "thread") == 0;
        bool is_tid = !label->str && strcmp(key, "tid") == 0;
        if (is_name)
            place->thread = label->str;
        if (is_tid)
            place->tid = label->num;
        has_thread |= is_name || is_tid;
    }
    if (place->tid == 0 && sample.location_count)
        place->process = sample.locations[sample.location_count - 1];
    return has_thread && sample.location_count > 0 && place->ns > 0;
}

/* The end of the places from `first` on that are equal in `order`, and their sum. */
static size_t find_end(const struct idle *idle, size_t first,
                       int (*order)(const struct place *, const struct place *), size_t limit,
                       double *ns) {
    size_t end = first;
    *ns = 0;
    for (; end < limit && order(&idle->places[first], &idle->places[end]) == 0; end++)
        *ns += (double)idle->places[end].ns;
    return end;
}

static void leave_out(struct idle *idle, size_t first, size_t end, double ns) {
    for (size_t i = first; i < end; i++)
        idle->is_wanted[idle->places[i].sample] = false;
    idle->threads++;
    idle->ns += (int64_t)ns;
}

static void find_idle(struct idle *idle) {
    for (size_t first = 0, end; first < idle->count; first = end) {
        double all, one;
        end = find_end(idle, first, compare_threads, idle->count, &all);
        for (size_t stack = first, next; stack < end; stack = next) {
            next = find_end(idle, stack, compare_stacks, end, &one);
            if (one * 100 >= all * IDLE_PERCENT)
                leave_out(idle, stack, next, one);
        }
    }
}

static bool is_without_idle(const struct sonde_profile *profile) {
    for (size_t i = 0; i < sonde_profile_comment_count(profile); i++)
        if (strncmp(sonde_profile_comment(profile, i), COMMENT, sizeof COMMENT - 1) == 0)
            return true;
    return false;
}

static sonde_err make_copy(const struct sonde_profile *profile, const struct idle *idle,
                           struct sonde_profile **copy) {
    char comment[120];
    snprintf(comment, sizeof comment, COMMENT "%zu thread%s that only wait%s, %.2f s, left out",
             idle->threads, idle->threads == 1 ? "" : "s", idle->threads == 1 ? "s" : "",
             (double)idle->ns / 1e9);
    return profile_copy_wanted(profile, idle->is_wanted, is_without_idle(profile) ? NULL : comment,
                               copy);
}

/* The sample type with the time of all threads; SONDE_PROFILE_NO_TYPE = there is none. */
static size_t find_waits(const struct sonde_profile *profile) {
    size_t type = sonde_profile_find_type(profile, sonde_events[SONDE_WALL].amount.type.type);
    return type != SONDE_PROFILE_NO_TYPE
               ? type
               : sonde_profile_find_type(profile, sonde_events[SONDE_OFF_CPU].amount.type.type);
}

sonde_err sonde_profile_without_idle(const struct sonde_profile *profile,
                                     struct sonde_profile **copy, struct sonde_diag *diag) {
    size_t count = sonde_profile_sample_count(profile), type = find_waits(profile);
    bool is_repeated = is_without_idle(profile);
    *copy = NULL;
    if (type == SONDE_PROFILE_NO_TYPE)
        return sonde_fail(
            diag, SONDE_INVALID_ARGUMENT,
            "only profiles of wall-clock and off-CPU time have idle threads; this one "
            "measures %.60s",
            sonde_profile_type(profile, sonde_profile_type_count(profile) - 1).type);
    struct idle idle = {.places = calloc(count + 1, sizeof *idle.places),
                        .is_wanted = malloc(count + 1)};
    sonde_err err = idle.places && idle.is_wanted ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; !err && i < count && !is_repeated; i++)
        idle.count += read_place(profile, i, type, &idle.places[idle.count]);
    if (!err) {
        memset(idle.is_wanted, true, count);
        qsort(idle.places, idle.count, sizeof *idle.places, compare);
        find_idle(&idle);
        err = make_copy(profile, &idle, copy);
    }
    free(idle.places);
    free(idle.is_wanted);
    return err;
}
