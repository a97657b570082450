/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads of sampled threads (signal/room.h): memory for all of them is reserved once and costs
 * pages only as they are used; a thread is taken when a thread is first seen during a capture and
 * given back when the thread or the capture ends.
 *
 * Everything here wants sampled_threads_lock, which also masks signals, so that no handler of the
 * application can leave by longjmp with the lock held. The tick handlers never take it. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_SAMPLED_THREADS_H
#define SONDE_SERVICE_GUEST_SAMPLING_SAMPLED_THREADS_H

#include "service/guest/signal/handler_state.h"

/* Reserves the memory; 0 or an errno. Any number of times. */
int sampled_threads_open(void);

void sampled_threads_lock(uint64_t *old_mask);
void sampled_threads_unlock(const uint64_t *old_mask);
/* In the child of a fork: the lock may have been held by a thread that is not there any more. */
void sampled_threads_after_fork(void);

/* A thread for tid, not armed yet; NULL when there is none free. The tid must not have one. */
struct sampled_thread *sampled_threads_add(uint32_t tid);
/* Its clock is disarmed. */
void sampled_threads_remove(struct sampled_thread *thread);
/* Highest thread ever taken + 1, and how many are taken now. */
uint32_t sampled_threads_limit(void);
uint32_t sampled_threads_count(void);
static inline uint32_t sampled_threads_index(const struct sampled_thread *thread) {
    return (uint32_t)(thread - handler_state.threads);
}

/* Handlers of all threads, those given back included. Since the process began. */
struct handler_cost {
    uint64_t ns, count, preempted; /* ns: of those that were not preempted */
};
struct handler_cost sampled_threads_handler_cost(void);
/* What ring.h calls handler_ns, between two readings. */
uint64_t handler_cost_ns(const struct handler_cost *since, const struct handler_cost *now);
/* Gives the pages of unused caches back. Only after handler_is_quiescent with all threads given. */
void sampled_threads_trim(void);

#endif
