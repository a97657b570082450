/* SPDX-License-Identifier: Apache-2.0
 *
 * Snapshots of one process's heap as records: what is in use, and what was allocated since the last
 * snapshot. The allocator counts since profiling was switched on, or reset, so the sums of the last
 * snapshot are kept. A process with more than HEAP_DELTA_STACKS stacks, or for which there is no
 * room, has no second record. Thread safety: one thread at a time per heap_delta. */
#ifndef SONDE_SERVICE_ENGINE_RECORD_HEAP_DELTA_H
#define SONDE_SERVICE_ENGINE_RECORD_HEAP_DELTA_H

#include "api/profile/sums.h"

#define HEAP_DELTA_STACKS (1u << 17) /* 4 MiB */

/* Zeroed memory, with room set, is that of a process without a snapshot. */
struct heap_delta {
    _Atomic uint32_t *room;         /* stacks that the sums of all processes may still have */
    uint32_t reserved;              /* taken from it */
    struct sonde_profile_sums sums; /* of the last snapshot */
    uint64_t epoch;
    int64_t unix_ns, at_ns; /* of the last snapshot; CLOCK_MONOTONIC */
};

/* Live objects and bytes of a snapshot; NULL if the profile has none. The caller destroys *live. */
SONDE_MUST_USE sonde_err heap_delta_live(const struct sonde_profile *snapshot, int64_t unix_ns,
                                         struct sonde_profile **live);
/* Objects and bytes that were allocated since the last snapshot of the epoch, which was at
 * *since_unix_ns, and keeps this one's sums. The snapshot is of unix_ns and now_ns
 * (CLOCK_MONOTONIC): the time in between keeps its length if the date is set. NULL if there was
 * none, or the profile does not count them. The caller destroys *allocated. */
SONDE_MUST_USE sonde_err heap_delta_allocated(struct heap_delta *delta,
                                              const struct sonde_profile *snapshot, uint64_t epoch,
                                              int64_t unix_ns, int64_t now_ns,
                                              int64_t *since_unix_ns,
                                              struct sonde_profile **allocated);
void heap_delta_finish(struct heap_delta *delta);

#endif
