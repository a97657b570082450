/* SPDX-License-Identifier: Apache-2.0
 *
 * Our own sampler as a whole: who wants it (heap profiling, windows of allocations), the imports
 * patched while anybody does, and its memory.
 *
 *     wish ──▶ imports patched, memory made ──interposer_begin──▶ gate open ──no wish──▶ closed,
 *     imports put back ──nobody inside──▶ memory given back
 *
 * Between a wish and interposer_begin the caller waits for the tables that stacks are walked by.
 * Both wishes share one sampler, at the denser of the two; each sample knows its own chance.
 * Control thread only. */
#ifndef SONDE_SERVICE_GUEST_HEAP_SAMPLER_CONTROL_H
#define SONDE_SERVICE_GUEST_HEAP_SAMPLER_CONTROL_H

#include "service/guest/heap/got_patch.h"

#pragma GCC visibility push(hidden)

struct interposer_wish {
    uint64_t mean;      /* bytes between samples; 0 = none are taken so; 1 = every allocation */
    double probability; /* of each allocation; 0 = not asked */
};

enum interposer_use { INTERPOSER_HEAP, INTERPOSER_ALLOCS, INTERPOSER_USES };

bool interposer_is_possible(void);
/* An empty wish ends the use. 0 or an errno: ENOTSUP, EBUSY (a thread is stopped inside the
 * sampler), ENOMEM. Of the first heap wish on, blocks are remembered. */
int interposer_want(enum interposer_use use, const struct interposer_wish *wish);
bool interposer_is_wanted(enum interposer_use use);
uint64_t interposer_mean(void); /* of the heap's wish */
/* Whether a wish waits for interposer_begin. */
bool interposer_is_waiting(void);
int interposer_begin(void);
/* Forgets the blocks that live now. */
void interposer_forget(void);
/* The table's number, 0 = none, and its descriptor. */
uint32_t interposer_table(void);
int interposer_table_fd(void);
/* Patches what was loaded since, gives memory back. Milliseconds until it wants to be called, -1 =
 * never. */
int interposer_tick(int64_t now_ns);
void interposer_stop(void);
void interposer_after_fork(void);

#pragma GCC visibility pop

#endif
