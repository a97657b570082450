/* SPDX-License-Identifier: Apache-2.0
 *
 * Turns Sonde's sampler on and off for its two uses, heap profiling and windows of allocations.
 *
 *     first use ──▶ table made, imports patched ──start──▶ sampling ──last use ends──▶ disabled,
 *     imports restored ──quiescent──▶ table freed
 *
 * A jemalloc that is linked into the program cannot be patched, so windows also use its hooks
 * (jemalloc_hooks.h). Heap profiling does not: it lasts too long for what hooks cost.
 *
 * Between the first request and sampler_control_start the caller waits for the unwind tables. Both
 * uses share one sampler, which runs at the denser of the two rates. Control thread only. */
#ifndef SONDE_SERVICE_GUEST_HEAP_SAMPLER_CONTROL_H
#define SONDE_SERVICE_GUEST_HEAP_SAMPLER_CONTROL_H

#include "service/guest/heap/got_patch.h"

#pragma GCC visibility push(hidden)

struct sampler_rate {
    uint64_t mean;      /* bytes between samples; 0 = none by size, 1 = every allocation */
    double probability; /* of each allocation, in addition; 0 = none */
};

enum sampler_use { SAMPLER_USE_HEAP, SAMPLER_USE_ALLOCS, SAMPLER_USES };

/* Whether imports of malloc can be patched or, for windows, jemalloc has hooks. */
bool sampler_control_is_possible(enum sampler_use use);
/* Begins, changes or (both fields 0) ends a use. Live blocks are remembered while SAMPLER_USE_HEAP
 * is on. 0 or an errno: ENOTSUP, EBUSY (a thread is stopped inside the sampler), ENOMEM; after an
 * error the use is as it was before. */
int sampler_control_set_rate(enum sampler_use use, const struct sampler_rate *rate);
bool sampler_control_is_wanted(enum sampler_use use);
uint64_t sampler_control_heap_mean(void);
/* Whether a use waits for sampler_control_start. */
bool sampler_control_is_pending(void);
/* 0 or an errno. */
int sampler_control_start(void);
/* Forgets the blocks that are live now. */
void sampler_control_forget_live(void);
/* The sample table's number, which grows with each table made; 0 = there is none. */
uint32_t sampler_control_table(void);
/* Its memfd, borrowed; -1 = none. */
int sampler_control_table_fd(void);
/* Patches libraries loaded since the last call and frees an unused table. Milliseconds until the
 * next call is due, -1 = never. */
int sampler_control_tick(int64_t now_ns);
/* Ends both uses. */
void sampler_control_stop(void);
/* In the child of a fork. */
void sampler_control_after_fork(void);

#pragma GCC visibility pop

#endif
