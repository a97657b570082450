/* SPDX-License-Identifier: Apache-2.0
 *
 * The entries of sampled threads (signal/handler_state.h). Memory for all of them is reserved once;
 * pages are allocated as they are used. A thread gets an entry when it is first seen during a
 * capture, and loses it when the thread or the capture ends.
 *
 * Everything here needs the lock of sampled_threads_lock. Tick handlers never take it. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_SAMPLED_THREADS_H
#define SONDE_SERVICE_GUEST_SAMPLING_SAMPLED_THREADS_H

#include "service/guest/signal/handler_state.h"

/* Reserves the memory; 0 or an errno. A second call does nothing. Control thread only. */
int sampled_threads_open(void);

/* Takes the lock and masks all signals but our ticks, so that no handler of the application can
 * leave by longjmp with the lock held. Any thread; not signal-safe. */
void sampled_threads_lock(uint64_t *old_mask);
void sampled_threads_unlock(const uint64_t *old_mask);
/* In the child of a fork, where the thread that held the lock may not exist. */
void sampled_threads_after_fork(void);

/* A new entry for thread `tid`, which must not have one. Its clock is not armed. NULL when all
 * entries are used. */
struct sampled_thread *sampled_threads_add(uint32_t tid);
/* Frees an entry, whose clock must be disarmed. */
void sampled_threads_remove(struct sampled_thread *thread);
/* Highest index ever used + 1. */
uint32_t sampled_threads_limit(void);
/* Number of entries in use. */
uint32_t sampled_threads_count(void);
static inline uint32_t sampled_threads_index(const struct sampled_thread *thread) {
    return (uint32_t)(thread - handler_state.threads);
}

/* Runs of tick handlers, of all threads since the process started. */
struct handler_cost {
    uint64_t ns; /* of the runs that were not preempted */
    uint64_t runs, preempted;
};
struct handler_cost sampled_threads_handler_cost(void);
/* The time of all runs between two readings, as ring.h defines handler_ns. */
uint64_t handler_cost_ns(const struct handler_cost *since, const struct handler_cost *now);
/* Frees the pages of unused entries and caches. Only after handler_is_quiescent, with no entry in
 * use. */
void sampled_threads_trim(void);

#endif
