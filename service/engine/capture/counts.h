/* SPDX-License-Identifier: Apache-2.0
 *
 * What one capture counts, and how it is thinned out of the common tick stream.
 *
 * The guest ticks at the highest rate any capture asked for; every sample says how much CPU time it
 * stands for. A capture keeps one accumulator per thread that starts at a random point of its
 * period and grows by those weights: each time it passes the period one sample counts. So samples x
 * period is the thread's CPU time whatever the tick was, overruns and dithered periods included,
 * and a thread that lives for a fraction of the period is counted with just that probability.
 * Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_ENGINE_CAPTURE_COUNTS_H
#define SONDE_SERVICE_ENGINE_CAPTURE_COUNTS_H

#include "api/error.h"
#include "api/hash_index.h"

#include <stdbool.h>
#include <stdint.h>

#define COUNTS_MAX (1u << 18) /* different (stack, thread, label, request) of one window */
#define COUNTS_MAX_REQUESTS \
    (COUNTS_MAX / 4 * 3) /* past so many keys samples lose their request number */
#define COUNTS_MAX_TOTAL (1ull << 40)
#define THINNER_MAX      (1u << 16) /* threads with an accumulator; further ones are drawn by lot */

struct count_key {
    uint32_t stack, thread, label;
    uint64_t request;
};

struct count_entry {
    struct count_key key;
    uint64_t count; /* never 0 */
};

/* Zeroed memory is empty. */
struct counts {
    struct count_entry *entries; /* in the order of their first sample */
    uint32_t used, capacity;
    struct hash_index index; /* of entries */
    uint64_t total;
};

/* SONDE_TOO_LARGE when it does not fit. */
SONDE_MUST_USE sonde_err counts_add(struct counts *counts, const struct count_key *key, uint64_t n);
void counts_finish(struct counts *counts);

struct thinner_thread {
    uint32_t tid;
    uint64_t gathered_ns;
};

struct thinner {
    uint64_t period_ns;
    uint64_t random;
    struct thinner_thread *threads;
    uint32_t used, capacity;
    struct hash_index index; /* of threads, by tid */
};

void thinner_init(struct thinner *thinner, uint64_t period_ns, uint64_t seed);
/* How many samples of this capture weight_ns of that thread is. */
uint64_t thinner_take(struct thinner *thinner, uint32_t tid, uint64_t weight_ns);
void thinner_finish(struct thinner *thinner);

#endif
