/* SPDX-License-Identifier: Apache-2.0
 *
 * Our backtrace in the place of jemalloc's own: the walk of the signal handler (signal/walk.h),
 * from an ordinary call, over the same published map. It is called by any thread in the middle of
 * an allocation, at times in a signal handler, at times inside itself: it takes no lock, calls
 * nothing that allocates, and keeps nothing of a thread but where its stack is.
 *
 * Caches are shared: a thread takes the one its address points to, or a neighbour when that is
 * taken, by one exchange, and gives it back by one store. A walk holds its cache from before it
 * reads handler_state.map until it is done, so a cache seen free after a publication means that
 * nobody is left in what was published before. Without a map, without a free cache, and where the
 * walk finds no caller, the allocator's own backtrace does the work. */
#ifndef SONDE_SERVICE_GUEST_HEAP_ALLOC_BACKTRACE_H
#define SONDE_SERVICE_GUEST_HEAP_ALLOC_BACKTRACE_H

#include "service/guest/signal/walk.h"

#include <stdbool.h>

#define ALLOC_BACKTRACE_CACHES 64u

typedef void alloc_backtrace_function(void **pcs, unsigned *count, unsigned most);

/* What jemalloc is given. Any thread; signal-safe but for what the original does. */
alloc_backtrace_function alloc_backtrace_hook;
/* Whose work it was before; set before the hook is. */
void alloc_backtrace_set_original(alloc_backtrace_function *original);
/* The same walk for our own sampler: from the function that calls this (walk_registers_here), into
 * pcs from the return address `caller` on, at most `most` of them; at least the caller. Any thread;
 * signal-safe. */
uint32_t alloc_backtrace_take(const struct walk_registers *here, uint64_t caller, uint64_t *pcs,
                              uint32_t most);
/* Whether no walk is under way that began before the call. Waits for nobody: false = ask again
 * later. Control thread. */
bool alloc_backtrace_is_quiescent(void);
/* In the child of a fork: other threads' walks do not go on there. */
void alloc_backtrace_after_fork(void);

#endif
