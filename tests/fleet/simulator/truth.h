/* SPDX-License-Identifier: Apache-2.0
 *
 * What the store must have in the end: the sums of all windows that the simulated hosts recorded,
 * without those that they dropped. A window that was sent, was not acknowledged, and whose host was
 * killed then may be stored or not: it is not in the sums, but in the list of doubtful windows, and
 * whoever compares asks the store for it.
 *
 * Thread safety: one thread. */
#ifndef SONDE_TESTS_FLEET_SIMULATOR_TRUTH_H
#define SONDE_TESTS_FLEET_SIMULATOR_TRUTH_H

#include "tests/fleet/simulator/pool.h"

#include <stdbool.h>
#include <stdint.h>

enum truth_event { TRUTH_ON_CPU, TRUTH_OFF_CPU, TRUTH_EVENTS };
extern const char *const truth_event_names[TRUTH_EVENTS];

struct truth_sums {
    int64_t windows, samples, value; /* value: with weight, rounded per row as stores do */
};

struct truth_doubt {
    char host[32], instance[33];
    size_t service;
    int event;
    int64_t begin_unix_s;
    struct truth_sums sums;
};

struct truth {
    const struct pool *pool;
    struct truth_sums (*sums)[TRUTH_EVENTS]; /* [service] */
    struct truth_doubt *doubts;
    size_t doubt_count, doubt_capacity;
    /* Windows. lost_by_memory and lost_by_restart were recorded and are not in the sums. */
    uint64_t recorded, merged, lost_by_memory, lost_by_restart, acknowledged;
};

void truth_init(struct truth *truth, const struct pool *pool);
void truth_finish(struct truth *truth);
/* sign: 1 or -1. */
void truth_add(struct truth *truth, size_t service, int event, const struct truth_sums *sums,
               int sign);
void truth_doubt(struct truth *truth, const struct truth_doubt *doubt);
/* JSON, in place of the file; false: it cannot be written. */
bool truth_write(const struct truth *truth, const char *path);

#endif
