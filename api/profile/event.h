/* SPDX-License-Identifier: Apache-2.0
 *
 * The events that Sonde measures, one row each: what they are called in history, captures, pprof,
 * Pyroscope and on the page, and how their amounts add up. Counted events are the kernel's and the
 * processor's: a capture of one counts how often it happens, or, of GROWTH, the memory that its
 * page faults have brought. History also stores events of other senders, which have no row: they
 * are sums, in bytes if the name begins with "mem-", otherwise in nanoseconds.
 *
 * Thread safety: any thread; everything is constant. */
#ifndef SONDE_API_PROFILE_EVENT_H
#define SONDE_API_PROFILE_EVENT_H

#include "api/bytes.h"
#include "api/profile/profile.h"

/* The first SONDE_MODES are the modes of a capture, in the order of CpuMode in profiler.proto. */
enum sonde_event_id {
    SONDE_ON_CPU = 0,
    SONDE_WALL,
    SONDE_OFF_CPU,
    SONDE_MODES,
    SONDE_MEM_ALLOC = SONDE_MODES,
    SONDE_MEM_INUSE,
    SONDE_COUNTED,
    SONDE_PAGE_FAULTS = SONDE_COUNTED,
    SONDE_MINOR_FAULTS,
    SONDE_MAJOR_FAULTS,
    SONDE_CONTEXT_SWITCHES,
    SONDE_CPU_MIGRATIONS,
    SONDE_CYCLES,
    SONDE_INSTRUCTIONS,
    SONDE_CACHE_MISSES,
    SONDE_BRANCH_MISSES,
    SONDE_GROWTH, /* page faults, of which only pages count that stay resident */
    SONDE_EVENTS
};

/* The rows' names for --help and for errors; a test compares them with the rows. */
#define SONDE_MODE_NAMES  "cpu, wall or off-cpu"
#define SONDE_EVENT_NAMES "on-cpu, off-cpu, mem-alloc or mem-inuse"
#define SONDE_COUNTED_NAMES                                                               \
    "page-faults, minor-faults, major-faults, context-switches, cpu-migrations, cycles, " \
    "instructions, cache-misses, branch-misses or growth"

struct sonde_measure {
    struct sonde_value_type type;
    const char *words; /* in a title: "CPU", "live heap" */
};

struct sonde_event {
    const char *name; /* in history and selectors, and DeepFlow's event type */
    const char *mode; /* what a capture of it is called; NULL = it is no mode */
    const char *note; /* a comment of such a capture's profile; NULL = none */
    bool is_recorded; /* history has it */
    bool is_state;    /* only the last window of a process counts; others are summed */
    bool has_samples; /* history's profile begins with samples/count */
    struct sonde_measure amount;
    struct sonde_measure objects; /* memory: the number of objects; type NULL = not counted */
    const char *alias;            /* a sample type of other senders for it; NULL = none */
    /* Pyroscope's name of the profile. Its id is five texts joined by ':': the name, type and unit
     * of the amount, and type and unit of the period. */
    const char *pyroscope_name, *pyroscope_id;
    struct sonde_value_type period;
    /* On the page: the name of its graph, what a capture of it shows, what a legend's amount is of
     * (NULL = amount.words), and the unit of a curve: per_rate amounts a second, or of a state. */
    const char *title, *shows, *legend, *rate_unit;
    uint32_t per_rate;
};

/* The name of an event that no window has. */
#define SONDE_NO_EVENT "none"

/* In selectors: the event's pyroscope_id; "" if it has none. */
#define SONDE_TYPE_LABEL "__profile_type__"

extern const struct sonde_event sonde_events[SONDE_EVENTS];

/* The recorded event of a name; NULL if there is none. */
const struct sonde_event *sonde_event_find(const char *name);
/* The recorded event that a sender's sample type means: it may be the event's name, the type of its
 * amount or an alias. NULL if there is none. */
const struct sonde_event *sonde_event_of_type(const char *type);
/* For any name. */
bool sonde_event_is_state(const char *name);
const char *sonde_event_unit(const char *name); /* "nanoseconds", "bytes" */
/* The words for a sample type; NULL if no event has it. */
const char *sonde_event_words(const char *type);
/* Whether it is a counted event, not a mode or memory. */
bool sonde_event_is_counted(enum sonde_event_id event);
/* What a capture of it is called: its mode, or its name. */
const char *sonde_event_kind(enum sonde_event_id event);
/* The counted event of a name; SONDE_EVENTS if there is none. */
enum sonde_event_id sonde_event_find_counted(struct sonde_slice name);
/* The words for the sample type of a counted event whose unit is "count"; NULL for any other
 * type. */
const char *sonde_event_counted_words(const char *type);
/* The mode of a name: an index into sonde_events; SONDE_MODES if there is none. */
size_t sonde_event_find_mode(struct sonde_slice name);

#endif
