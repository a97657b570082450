/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of several rings has the oldest record: a binary heap of times. Thread safety: one thread
 * at a time. */
#ifndef SONDE_SERVICE_HOST_RINGS_MERGE_H
#define SONDE_SERVICE_HOST_RINGS_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct merge_head {
    uint64_t time_ns;
    uint32_t ring;
};

struct merge {
    struct merge_head *heads; /* the caller's, one per ring */
    size_t count;
};

void merge_push(struct merge *merge, struct merge_head head);
/* The oldest head, or NULL; valid until the next call. Of equal times, the lower ring. */
const struct merge_head *merge_first(const struct merge *merge);
void merge_pop(struct merge *merge);

#endif
