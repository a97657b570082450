/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing records to the shared rings (layout and protocol: service/guest/ring.h). A record is
 * reserved, filled in place and published. A record that does not fit is counted by cause, together
 * with the CPU time it stands for. Wait-free: at most RING_TRIES attempts. Any thread;
 * signal-safe. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_PUSH_H
#define SONDE_SERVICE_GUEST_SIGNAL_PUSH_H

#include "service/guest/signal/handler_state.h"

#include <stddef.h>

#pragma GCC visibility push(hidden)

/* Reserves zeroed memory of `size` bytes, a multiple of 8, in the ring of thread `tid`. Returns
 * NULL if there was no room, which is counted with weight_ns. */
SONDE_SIGSAFE
struct ring_record *ring_reserve(const struct ring_set *rings, uint32_t tid, uint32_t size,
                                 uint64_t weight_ns);
/* Makes the record visible to sonded. It must not be touched afterwards. */
SONDE_SIGSAFE
void ring_publish(struct ring_record *record, uint32_t size);
/* Counts a drop. */
SONDE_SIGSAFE
void ring_drop(const struct ring_set *rings, enum ring_drop cause, uint64_t weight_ns);
/* Records a thread's name (16 bytes) and label text ("" = none). Returns false if they were dropped
 * and counted with weight_ns, the weight of the record that was to follow and must not be pushed
 * now. */
SONDE_SIGSAFE
bool ring_push_thread(const struct ring_set *rings, uint32_t tid, const char *name, uint32_t label,
                      const char *text, uint64_t weight_ns);
/* Records time without samples. Returns false if it was dropped and counted. */
SONDE_SIGSAFE
bool ring_push_unseen(const struct ring_set *rings, uint32_t tid, uint64_t cpu_ns,
                      enum ring_unseen_cause cause);

/* The control page of a ring; its data follows. */
static inline struct ring_control *ring_control_of(const struct ring_set *rings, uint32_t index) {
    return (struct ring_control *)((char *)rings->header + RING_PAGE +
                                   (size_t)index * (RING_PAGE + rings->bytes));
}

#pragma GCC visibility pop

#endif
