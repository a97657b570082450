/* SPDX-License-Identifier: Apache-2.0
 *
 * The seats of sampled threads (signal/room.h): memory for all of them is reserved once and costs
 * pages only as they are used; a seat is taken when a thread is first seen during a capture and
 * given back when the thread or the capture ends.
 *
 * Everything here wants seats_lock, which also masks signals, so that no handler of the application
 * can leave by longjmp with the lock held. The tick handlers never take it. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_SAMPLED_THREADS_H
#define SONDE_SERVICE_GUEST_SAMPLING_SAMPLED_THREADS_H

#include "service/guest/signal/handler_state.h"

/* Reserves the memory; 0 or an errno. Any number of times. */
int seats_open(void);

void seats_lock(uint64_t *old_mask);
void seats_unlock(const uint64_t *old_mask);
/* In the child of a fork: the lock may have been held by a thread that is not there any more. */
void seats_after_fork(void);

/* A seat for tid, not armed yet; NULL when there is none free. The tid must not have one. */
struct room_seat *seats_take(uint32_t tid);
/* Its clock is disarmed. */
void seats_give(struct room_seat *seat);
/* Highest seat ever taken + 1, and how many are taken now. */
uint32_t seats_limit(void);
uint32_t seats_count(void);
static inline uint32_t seats_number(const struct room_seat *seat) {
    return (uint32_t)(seat - room.seats);
}

/* Handlers of all seats, those given back included. Since the process began. */
struct seats_handlers {
    uint64_t ns, count, preempted; /* ns: of those that were not preempted */
};
struct seats_handlers seats_handlers(void);
/* What ring.h calls handler_ns, between two readings. */
uint64_t seats_handler_ns(const struct seats_handlers *since, const struct seats_handlers *now);
/* Gives the pages of unused caches back. Only after room_quiet with all seats given. */
void seats_trim(void);

#endif
