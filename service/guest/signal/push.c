/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest writes head and sonded writes tail, but sonded can write to all of this memory. A wrong
 * value may cost samples, but must never cause a store outside the ring. So positions are always
 * masked, and nothing is reserved while tail is ahead of head. */
#include "service/guest/signal/push.h"

#include <string.h>

void ring_drop(const struct ring_set *rings, enum ring_drop cause, uint64_t weight_ns) {
    atomic_fetch_add_explicit(ring_drops(rings->header, cause), 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&rings->header->dropped_ns, weight_ns, memory_order_relaxed);
}

void ring_publish(struct ring_record *record, uint32_t size) {
    atomic_store_explicit(&record->size, size, memory_order_release);
}

/* Reserves `size` contiguous bytes. If the rest of the ring is too short, reserves it as well and
 * fills it with a pad. */
static struct ring_record *claim(struct ring_control *ring, uint64_t bytes, uint32_t size,
                                 enum ring_drop *cause) {
    char *data = (char *)ring + RING_PAGE;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    for (uint32_t tries = 0; tries < RING_TRIES; tries++) {
        uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_acquire);
        uint64_t position = head & (bytes - 1) & ~7ull, rest = bytes - position;
        uint64_t pad = rest < size ? rest : 0;
        if (head - tail > bytes) { /* others moved both since head was read, or tail is wrong */
            head = atomic_load_explicit(&ring->head, memory_order_relaxed);
            continue;
        }
        if (bytes - (head - tail) < pad + size) {
            *cause = RING_DROP_FULL;
            return NULL;
        }
        if (!atomic_compare_exchange_weak_explicit(&ring->head, &head, head + pad + size,
                                                   memory_order_acq_rel, memory_order_relaxed))
            continue;
        if (pad) {
            struct ring_record *padding = (struct ring_record *)(data + position);
            padding->kind = RING_RECORD_PAD; /* the rest may be only 8 bytes: write no more */
            ring_publish(padding, (uint32_t)pad);
        }
        return (struct ring_record *)(data + (pad ? 0 : position));
    }
    *cause = RING_DROP_CONTENDED;
    return NULL;
}

struct ring_record *ring_reserve(const struct ring_set *rings, uint32_t tid, uint32_t size,
                                 uint64_t weight_ns) {
    enum ring_drop cause = RING_DROP_FULL;
    struct ring_control *ring = ring_control_of(rings, tid & (rings->count - 1));
    struct ring_record *record = claim(ring, rings->bytes, size, &cause);
    if (!record)
        ring_drop(rings, cause, weight_ns);
    else
        record->tid = tid;
    return record;
}

bool ring_push_thread(const struct ring_set *rings, uint32_t tid, const char *name, uint32_t label,
                      const char *text, uint64_t weight_ns) {
    struct ring_record *record = ring_reserve(rings, tid, sizeof(struct ring_thread), weight_ns);
    if (!record)
        return false;
    struct ring_thread *thread = (struct ring_thread *)record;
    record->kind = RING_RECORD_THREAD;
    memcpy(thread->name, name, sizeof thread->name);
    thread->label = label;
    uint32_t len = 0; /* counted here, because sonded can write to the ring */
    while (len < sizeof thread->text - 1 && text[len])
        len++;
    memcpy(thread->text, text, len);
    thread->label_len = len;
    ring_publish(record, sizeof *thread);
    return true;
}

bool ring_push_unseen(const struct ring_set *rings, uint32_t tid, uint64_t cpu_ns,
                      enum ring_unseen_cause cause) {
    struct ring_record *record = ring_reserve(rings, tid, sizeof(struct ring_unseen), cpu_ns);
    if (!record)
        return false;
    struct ring_unseen *unseen = (struct ring_unseen *)record;
    record->kind = RING_RECORD_UNSEEN;
    unseen->cpu_ns = cpu_ns;
    unseen->cause = cause;
    ring_publish(record, sizeof *unseen);
    return true;
}
