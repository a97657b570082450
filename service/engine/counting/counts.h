/* SPDX-License-Identifier: Apache-2.0
 *
 * The sample counts of one window: a number per (stack, thread, label, lock, request). Bounded.
 * Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_ENGINE_COUNTING_COUNTS_H
#define SONDE_SERVICE_ENGINE_COUNTING_COUNTS_H

#include "api/error.h"
#include "api/hash_index.h"
#include "service/process/memory_share.h"

#include <stdbool.h>
#include <stdint.h>

#define COUNTS_MAX (1u << 18) /* keys of one window */
/* With this many keys, samples with new keys lose their request number. */
#define COUNTS_MAX_REQUESTS (COUNTS_MAX / 4 * 3)
#define COUNTS_MAX_TOTAL    (1ull << 61) /* of n; captures limit n times the period */

struct count_key {
    uint32_t stack, thread, label, lock;
    uint64_t request;
};

struct count_entry {
    struct count_key key;
    uint64_t count; /* 0 only with waits */
    double waits;   /* how often the thread went off the CPU; of counted events, the samples */
};

/* Zeroed memory is an empty table; set share.uid to the target's user. */
struct counts {
    struct count_entry *entries; /* in the order of their first sample */
    uint32_t used, capacity;
    uint32_t last;           /* index of the entry that was counted last */
    struct hash_index index; /* of entries, by key */
    uint64_t total;
    struct memory_share share;
};

/* Adds n samples and waits. n may be 0: a wait that is much shorter than the period.
 * SONDE_TOO_LARGE when there is no room, SONDE_OUT_OF_MEMORY also when the user has no more
 * room. */
SONDE_MUST_USE sonde_err counts_add(struct counts *counts, const struct count_key *key, uint64_t n,
                                    double waits);
void counts_finish(struct counts *counts);

#endif
