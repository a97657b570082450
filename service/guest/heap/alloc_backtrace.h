/* SPDX-License-Identifier: Apache-2.0
 *
 * The stack of an allocation, walked by the same code and module map as a tick (signal/walk.h). It
 * replaces jemalloc's own backtrace, and Sonde's sampler also uses it. Any thread may call it in
 * the middle of an allocation, in a signal handler, even recursively: it takes no lock and calls
 * nothing that allocates.
 *
 * A walk needs a cache. The caches are shared: a thread takes the one its stack address hashes to,
 * or a neighbour if that is in use, by one exchange, and returns it by one store. A walk holds its
 * cache from before it loads handler_state.map until it ends. So a cache that is free after a
 * publication is not in use by a walk over the old map. Without a map or a free cache, and where
 * the walk finds no caller, jemalloc's own backtrace is called. */
#ifndef SONDE_SERVICE_GUEST_HEAP_ALLOC_BACKTRACE_H
#define SONDE_SERVICE_GUEST_HEAP_ALLOC_BACKTRACE_H

#include "service/guest/heap/alloc_table.h"
#include "service/guest/signal/walk.h"

#include <stdbool.h>

#define ALLOC_BACKTRACE_CACHES 64u

typedef void alloc_backtrace_function(void **pcs, unsigned *count, unsigned most);

/* The hook for jemalloc. Where the place says something, the last pcs are its tags (alloc_table.h).
 * Any thread; as signal-safe as the original. */
alloc_backtrace_function alloc_backtrace_hook;
/* jemalloc's own backtrace. Set it before the hook is installed. */
void alloc_backtrace_set_original(alloc_backtrace_function *original);
/* Whether sonded reads places. An earlier one takes jemalloc's tags for addresses, and two halves
 * of a stack for one. */
void alloc_backtrace_use_places(bool uses);
/* The stack of the calling function (unwind_registers_here), from the return address `caller` on:
 * at least 1 and at most `most` pcs; returns their number. Of a deeper stack the leaf-most and the
 * root-most half are kept. Any thread; signal-safe. */
uint32_t alloc_backtrace_take(const struct unwind_registers *here, uint64_t caller, uint64_t *pcs,
                              uint32_t most, struct alloc_place *place);
/* True when every walk that was under way at the call has ended. Does not wait: after false, ask
 * again later. Control thread only. */
bool alloc_backtrace_is_quiescent(void);
/* Call it in the child of a fork: walks of the parent's other threads do not exist there. */
void alloc_backtrace_after_fork(void);

#endif
