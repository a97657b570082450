/* SPDX-License-Identifier: Apache-2.0
 *
 * The labels "lock" and "lock_owner" of a report's samples. A lock has one name in a report,
 * however many functions wait for it: the variable that it is in or, for one on the heap, its
 * address and the function with the most waiting for it. For report.c only. Thread safety: one
 * thread. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_REPORT_LOCKS_H
#define SONDE_SERVICE_ENGINE_REPORT_REPORT_LOCKS_H

#include "api/profile/select/wait_kind.h"
#include "service/engine/report/report_frames.h"

struct report_lock {
    uint64_t start; /* its address */
    uint32_t pid;
    enum sonde_wait_kind kind;
    const char *function; /* that waits most for it; "" = unknown. Of the profile */
    double weight;        /* of the function's entries of counts */
    uint32_t part, stack; /* of one of them */
    uint32_t text;        /* string id of the label */
};

struct report_locks {
    const struct report_input *input;
    const struct report_frames *frames;
    uint32_t *const *frame_of_node; /* by part: the number of a node's frame + 1 */
    struct sonde_profile *profile;
    struct report_lock *items;
    uint32_t count, capacity;
    struct hash_index index; /* of items */
    uint64_t others;         /* samples of locks beyond STACKS_MAX_LOCKS */
};

/* Names all locks, and adds a comment if there are others. The first four members are set, and the
 * frames have locations. symbols NULL: without variables. */
SONDE_MUST_USE sonde_err report_locks_init(struct report_locks *locks,
                                           struct symbol_store *symbols);
void report_locks_finish(struct report_locks *locks);
/* Adds the labels of an entry of counts, at most two. */
SONDE_MUST_USE sonde_err report_locks_label(struct report_locks *locks, uint32_t part,
                                            const struct count_key *key, struct sonde_label *labels,
                                            uint32_t *count);

#endif
