/* SPDX-License-Identifier: Apache-2.0
 *
 * The producers' side of service/guest/ring.h. A record is reserved, filled in place and published;
 * what does not fit is counted by cause together with the CPU time it stood for. Wait-free up to
 * RING_TRIES. Thread and signal safety: signal-safe. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_PUSH_H
#define SONDE_SERVICE_GUEST_SIGNAL_PUSH_H

#include "service/guest/signal/handler_state.h"

#include <stddef.h>

#pragma GCC visibility push(hidden)

/* Zeroed memory of `size` bytes (a multiple of 8) in the ring of tid, or NULL with the drop
 * counted. */
SONDE_SIGSAFE
struct ring_record *ring_reserve(const struct ring_set *rings, uint32_t tid, uint32_t size,
                                 uint64_t weight_ns);
/* Makes it visible to sonded; nothing of it may be touched afterwards. */
SONDE_SIGSAFE
void ring_publish(struct ring_record *record, uint32_t size);
SONDE_SIGSAFE
void ring_drop(const struct ring_set *rings, enum ring_drop cause, uint64_t weight_ns);
/* A thread's name (16 bytes) and label text, "" = none. weight_ns: of the record that shall follow,
 * which must not be pushed when this one was dropped. False = dropped. */
SONDE_SIGSAFE
bool ring_push_thread(const struct ring_set *rings, uint32_t tid, const char *name, uint32_t label,
                      const char *text, uint64_t weight_ns);
/* CPU time that no sample shows. False = dropped. */
SONDE_SIGSAFE
bool ring_push_unseen(const struct ring_set *rings, uint32_t tid, uint64_t cpu_ns,
                      enum ring_unseen_cause cause);

/* Where ring `index` has its control page; its data follows. */
static inline struct ring_control *ring_control_of(const struct ring_set *rings, uint32_t index) {
    return (struct ring_control *)((char *)rings->header + RING_PAGE +
                                   (size_t)index * (RING_PAGE + rings->bytes));
}

#pragma GCC visibility pop

#endif
