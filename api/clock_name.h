/* SPDX-License-Identifier: Apache-2.0
 *
 * What the name of a sampling clock means to users. They read where samples come from; the name
 * itself is only shown for a clock that has a known bias, beside the note that says which and what
 * a better one needs. Thread safety: any thread. */
#ifndef SONDE_API_CLOCK_NAME_H
#define SONDE_API_CLOCK_NAME_H

#include <stdbool.h>
#include <string.h>

/* Whether Sonde samples the process from outside, not by the guest inside it. */
static inline bool sonde_clock_is_outside(const char *name) {
    return strcmp(name, "perf-cpu") == 0 || strcmp(name, "perf-task") == 0 ||
           strcmp(name, "perf-event") == 0;
}

/* Whether there is no better clock of its kind. */
static inline bool sonde_clock_is_best(const char *name) {
    return strcmp(name, "perf-cpu") == 0 || strcmp(name, "perf-sigtrap") == 0 ||
           strcmp(name, "perf-event") == 0;
}

#endif
