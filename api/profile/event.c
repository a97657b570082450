/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/event.h"

#include <string.h>

#define PYROSCOPE(name, type, unit, period_type, period_unit)               \
    .pyroscope_id = name ":" type ":" unit ":" period_type ":" period_unit, \
    .pyroscope_name = name, .period = {period_type, period_unit}

/* A row of a counted event. A capture of it has the same samples/count before its amount as one of
 * CPU time, because one sample can stand for many events. */
#define COUNTED(text, type_text, words_text, title_text, unit)                                   \
    {                                                                                            \
        .name = (text), .amount = {{(type_text), "count"}, (words_text)}, .title = (title_text), \
        .rate_unit = (unit), .per_rate = 1,                                                      \
    }

const struct sonde_event sonde_events[SONDE_EVENTS] = {
    [SONDE_ON_CPU] =
        {
            .name = "on-cpu",
            .mode = "cpu",
            .is_recorded = true,
            .has_samples = true,
            .amount = {{"cpu", "nanoseconds"}, "CPU"},
            PYROSCOPE("process_cpu", "cpu", "nanoseconds", "cpu", "nanoseconds"),
            .title = "CPU",
            .shows = "what runs",
            .legend = "CPU time",
            .rate_unit = "cores",
            .per_rate = 1000000000,
        },
    [SONDE_WALL] =
        {
            .name = "wall",
            .mode = "wall",
            .note = "mode: wall clock: time on the CPU, blocked, and waiting for a CPU",
            .amount = {{"wall", "nanoseconds"}, "wall-clock time"},
            .title = "Wall",
            .shows = "running and waiting",
            .rate_unit = "threads",
            .per_rate = 1000000000,
        },
    [SONDE_OFF_CPU] =
        {
            .name = "off-cpu",
            .mode = "off-cpu",
            .note = "mode: off-CPU: time blocked, and waiting for a CPU",
            .is_recorded = true,
            .amount = {{"off_cpu", "nanoseconds"}, "off-CPU time"},
            .alias = "events",
            PYROSCOPE("off_cpu", "off_cpu", "nanoseconds", "off_cpu", "nanoseconds"),
            .title = "Off-CPU",
            .shows = "where threads wait",
            .rate_unit = "threads",
            .per_rate = 1000000000,
        },
    [SONDE_MEM_ALLOC] =
        {
            .name = "mem-alloc",
            .is_recorded = true,
            .amount = {{"alloc_space", "bytes"}, "allocated bytes"},
            .objects = {{"alloc_objects", "count"}, "allocated objects"},
            PYROSCOPE("memory", "alloc_space", "bytes", "space", "bytes"),
            .title = "Allocations",
            .rate_unit = "bytes/s",
            .per_rate = 1,
        },
    [SONDE_MEM_INUSE] =
        {
            .name = "mem-inuse",
            .is_recorded = true,
            .is_state = true,
            .amount = {{"inuse_space", "bytes"}, "live heap"},
            .objects = {{"inuse_objects", "count"}, "live objects"},
            PYROSCOPE("memory", "inuse_space", "bytes", "space", "bytes"),
            .title = "Live memory",
            .rate_unit = "bytes",
            .per_rate = 1,
        },
    [SONDE_PAGE_FAULTS] =
        COUNTED("page-faults", "page_faults", "page faults", "Page faults", "faults/s"),
    [SONDE_MINOR_FAULTS] = COUNTED("minor-faults", "minor_faults", "minor page faults",
                                   "Minor page faults", "faults/s"),
    [SONDE_MAJOR_FAULTS] = COUNTED("major-faults", "major_faults", "major page faults",
                                   "Major page faults", "faults/s"),
    [SONDE_CONTEXT_SWITCHES] = COUNTED("context-switches", "context_switches", "context switches",
                                       "Context switches", "switches/s"),
    [SONDE_CPU_MIGRATIONS] = COUNTED("cpu-migrations", "cpu_migrations", "CPU migrations",
                                     "CPU migrations", "migrations/s"),
    [SONDE_CYCLES] = COUNTED("cycles", "cycles", "CPU cycles", "CPU cycles", "cycles/s"),
    [SONDE_INSTRUCTIONS] =
        COUNTED("instructions", "instructions", "instructions", "Instructions", "instructions/s"),
    [SONDE_CACHE_MISSES] =
        COUNTED("cache-misses", "cache_misses", "cache misses", "Cache misses", "misses/s"),
    [SONDE_BRANCH_MISSES] =
        COUNTED("branch-misses", "branch_misses", "branch misses", "Branch misses", "misses/s"),
    [SONDE_GROWTH] =
        {
            .name = "growth",
            .note =
                "mode: growth: resident memory that was first touched during the capture and was "
                "still there at its end",
            .amount = {{"growth", "bytes"}, "growth of resident memory"},
            .title = "Growth",
            .rate_unit = "bytes/s",
            .per_rate = 1,
        },
};

const struct sonde_event *sonde_event_find(const char *name) {
    for (size_t i = 0; i < SONDE_EVENTS; i++)
        if (sonde_events[i].is_recorded && strcmp(name, sonde_events[i].name) == 0)
            return &sonde_events[i];
    return NULL;
}

const struct sonde_event *sonde_event_of_type(const char *type) {
    for (size_t i = 0; i < SONDE_EVENTS; i++) {
        const struct sonde_event *event = &sonde_events[i];
        if (event->is_recorded &&
            (strcmp(type, event->name) == 0 || strcmp(type, event->amount.type.type) == 0 ||
             (event->alias && strcmp(type, event->alias) == 0)))
            return event;
    }
    return NULL;
}

bool sonde_event_is_state(const char *name) {
    const struct sonde_event *event = sonde_event_find(name);
    return event && event->is_state;
}

const char *sonde_event_unit(const char *name) {
    const struct sonde_event *event = sonde_event_find(name);
    if (event)
        return event->amount.type.unit;
    return strncmp(name, "mem-", 4) == 0 ? "bytes" : "nanoseconds";
}

const char *sonde_event_words(const char *type) {
    for (size_t i = 0; i < SONDE_EVENTS; i++) {
        const struct sonde_measure *measures[] = {&sonde_events[i].amount,
                                                  &sonde_events[i].objects};
        for (size_t k = 0; k < 2; k++)
            if (measures[k]->type.type && strcmp(type, measures[k]->type.type) == 0)
                return measures[k]->words;
    }
    return NULL;
}

size_t sonde_event_find_mode(struct sonde_slice name) {
    size_t mode = 0;
    while (mode < SONDE_MODES && !sonde_slice_equals(name, sonde_events[mode].mode))
        mode++;
    return mode;
}

bool sonde_event_is_counted(enum sonde_event_id event) {
    return event >= SONDE_COUNTED && event < SONDE_EVENTS;
}

enum sonde_event_id sonde_event_find_counted(struct sonde_slice name) {
    enum sonde_event_id event = SONDE_COUNTED;
    while (event < SONDE_EVENTS && !sonde_slice_equals(name, sonde_events[event].name))
        event++;
    return event;
}

const char *sonde_event_counted_words(const char *type) {
    for (size_t i = SONDE_COUNTED; i < SONDE_EVENTS; i++) {
        const struct sonde_measure *amount = &sonde_events[i].amount;
        if (strcmp(type, amount->type.type) == 0 && strcmp(amount->type.unit, "count") == 0)
            return amount->words;
    }
    return NULL;
}

const char *sonde_event_kind(enum sonde_event_id event) {
    return sonde_events[event].mode ? sonde_events[event].mode : sonde_events[event].name;
}
