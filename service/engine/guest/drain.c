/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/guest/drain.h"

#include <string.h>

/* The size of the largest record other than padding. */
#define RECORD_MAX (sizeof(struct ring_sample) + RING_MAX_DEPTH * sizeof(uint64_t))

union record_copy {
    struct ring_record record;
    struct ring_sample sample;
    struct ring_thread thread;
    struct ring_unseen unseen;
    struct ring_span span;
    char bytes[RECORD_MAX];
};

size_t drain_memory_bytes(uint32_t ring_count, uint64_t ring_bytes) {
    return RING_PAGE + (size_t)ring_count * (RING_PAGE + ring_bytes);
}

sonde_err drain_init(struct drain *drain, void *memory, size_t bytes, struct sonde_diag *diag) {
    struct ring_header *header = memory;
    memset(drain, 0, sizeof *drain);
    if (bytes < RING_PAGE || (uintptr_t)memory % RING_PAGE != 0)
        return sonde_fail(diag, SONDE_CORRUPT, "rings of %zu bytes have no header", bytes);
    /* Copy, then check the copies: the guest can still write the header. */
    uint64_t magic = *(volatile uint64_t *)&header->magic;
    uint32_t version = *(volatile uint32_t *)&header->version;
    uint32_t count = *(volatile uint32_t *)&header->ring_count;
    uint64_t ring_bytes = *(volatile uint64_t *)&header->ring_bytes;
    if (magic != RING_MAGIC || version != 1)
        return sonde_fail(diag, SONDE_CORRUPT, "rings of an unknown version (%u)", version);
    if (count == 0 || count > RING_MAX_RINGS || ring_bytes < RING_MIN_BYTES ||
        ring_bytes > RING_MAX_BYTES || (ring_bytes & (ring_bytes - 1)) != 0 ||
        drain_memory_bytes(count, ring_bytes) > bytes)
        return sonde_fail(diag, SONDE_CORRUPT, "%u rings of %llu bytes do not fit %zu bytes", count,
                          (unsigned long long)ring_bytes, bytes);
    drain->header = header;
    drain->ring_count = count;
    drain->ring_bytes = ring_bytes;
    for (uint32_t i = 0; i < count; i++) {
        struct drain_ring *ring = &drain->rings[i];
        char *start = (char *)memory + RING_PAGE + i * (RING_PAGE + ring_bytes);
        ring->control = (struct ring_control *)start;
        ring->data = start + RING_PAGE;
        ring->tail = atomic_load_explicit(&ring->control->tail, memory_order_relaxed);
        if (ring->tail % 8 != 0)
            ring->is_abandoned = true;
    }
    return SONDE_OK;
}

/* Empties the ring. Memory that the guest will reserve next must be zero. */
static void resync(const struct drain *drain, struct drain_ring *ring, uint64_t head) {
    ring->stall_since_ns = 0;
    if (++ring->resyncs > DRAIN_MAX_RESYNCS || head % 8 != 0) {
        ring->is_abandoned = true;
        return;
    }
    memset(ring->data, 0, drain->ring_bytes);
    ring->tail = head;
    atomic_store_explicit(&ring->control->tail, head, memory_order_release);
}

static bool is_sample_sound(const struct ring_sample *sample, uint32_t size) {
    uint32_t depth = sample->record.depth;
    return depth <= RING_MAX_DEPTH && size == sizeof *sample + depth * sizeof(uint64_t) &&
           sample->end < RING_END_COUNT && sample->gap_at <= depth &&
           sample->weight_ns <= DRAIN_MAX_WEIGHT;
}

/* False if the record is invalid. */
static bool deliver(union record_copy *copy, uint32_t size, const struct drain_sink *sink) {
    switch (copy->record.kind) {
    case RING_RECORD_PAD:
        return true;
    case RING_RECORD_SAMPLE:
        if (size < sizeof copy->sample || !is_sample_sound(&copy->sample, size))
            return false;
        sink->on_sample(sink->context, &copy->sample);
        return true;
    case RING_RECORD_BLOCKED:
        if (size < sizeof copy->sample || !is_sample_sound(&copy->sample, size))
            return false;
        sink->on_blocked(sink->context, &copy->sample);
        return true;
    case RING_RECORD_THREAD:
        if (size != sizeof copy->thread || copy->thread.label_len > sizeof copy->thread.text)
            return false;
        sink->on_thread(sink->context, &copy->thread);
        return true;
    case RING_RECORD_UNSEEN:
        if (size != sizeof copy->unseen || copy->unseen.cpu_ns > DRAIN_MAX_WEIGHT)
            return false;
        sink->on_unseen(sink->context, &copy->unseen);
        return true;
    case RING_RECORD_SPAN:
        if (size != sizeof copy->span)
            return false;
        sink->on_span(sink->context, &copy->span);
        return true;
    default:
        return false;
    }
}

/* Reads the record at the tail. Returns its size, or 0 if none is published or the size is invalid.
 * Counts invalid sizes and records in *corrupt. An invalid record with a valid size is skipped. */
static uint32_t take_record(const struct drain *drain, struct drain_ring *ring, uint64_t used,
                            const struct drain_sink *sink, uint64_t *corrupt) {
    uint64_t at = ring->tail & (drain->ring_bytes - 1);
    struct ring_record *shared = (struct ring_record *)(ring->data + at);
    uint32_t size = atomic_load_explicit(&shared->size, memory_order_acquire);
    if (size == 0)
        return 0;
    if (size % 8 != 0 || size < 8 || size > used || size > drain->ring_bytes - at) {
        *corrupt += 1;
        return 0;
    }
    union record_copy copy;
    size_t known = size < sizeof copy ? size : sizeof copy;
    memset(&copy, 0, sizeof copy.thread);
    memcpy(&copy, shared, known);
    bool is_pad = copy.record.kind == RING_RECORD_PAD;
    if (!is_pad && (size > sizeof copy || !deliver(&copy, size, sink)))
        *corrupt += 1;
    memset(shared, 0, size);
    return size;
}

/* A record that is reserved but not published, because its thread is stopped in the handler, holds
 * up the whole ring. It is given up when the others have filled half of the ring behind it. */
static bool is_stalled(const struct drain *drain, struct drain_ring *ring, uint64_t used,
                       uint64_t now_ns) {
    if (ring->stall_since_ns == 0)
        ring->stall_since_ns = now_ns;
    return now_ns - ring->stall_since_ns > DRAIN_STALL_NS && used > drain->ring_bytes / 2;
}

/* False when the run must end. */
static bool may_go_on(struct drain *drain, uint64_t budget, const struct drain_sink *sink) {
    if (sink->is_over && drain->records % DRAIN_LOOK == DRAIN_LOOK - 1 && !drain->is_late)
        drain->is_late = sink->is_over(sink->context);
    return budget > 0 && !drain->is_late;
}

static uint64_t drain_ring(struct drain *drain, struct drain_ring *ring, uint64_t now_ns,
                           uint64_t *budget, const struct drain_sink *sink) {
    uint64_t head = atomic_load_explicit(&ring->control->head, memory_order_acquire);
    uint64_t corrupt = 0;
    if (head - ring->tail > drain->ring_bytes || head % 8 != 0) {
        resync(drain, ring, head);
        return 1;
    }
    while (ring->tail != head) {
        if (!may_go_on(drain, *budget, sink)) {
            drain->has_more = true;
            return corrupt;
        }
        uint64_t before = corrupt;
        uint32_t size = take_record(drain, ring, head - ring->tail, sink, &corrupt);
        if (size != 0) {
            ring->stall_since_ns = 0;
            ring->tail += size;
            drain->records++;
            *budget -= size < *budget ? size : *budget;
            atomic_store_explicit(&ring->control->tail, ring->tail, memory_order_release);
            continue;
        }
        if (corrupt == before && !is_stalled(drain, ring, head - ring->tail, now_ns))
            return corrupt;
        resync(drain, ring, head);
        return before + 1;
    }
    ring->stall_since_ns = 0;
    return corrupt;
}

uint64_t drain_run(struct drain *drain, uint64_t now_ns, uint64_t budget,
                   const struct drain_sink *sink) {
    uint64_t corrupt = 0;
    uint32_t first = drain->next_ring;
    budget = budget ? budget : UINT64_MAX;
    uint64_t whole = budget;
    drain->has_more = drain->is_late = false;
    drain->records = 0;
    for (uint32_t i = 0; i < drain->ring_count; i++) {
        uint32_t at = (first + i) % drain->ring_count;
        bool had_more = drain->has_more;
        if (!drain->rings[at].is_abandoned)
            corrupt += drain_ring(drain, &drain->rings[at], now_ns, &budget, sink);
        if (drain->has_more && !had_more)
            drain->next_ring = at;
    }
    drain->taken = whole - budget;
    return corrupt;
}

/* Returns the number of bytes. Zeroes them, because the guest writes there next. */
static uint64_t discard_ring(const struct drain *drain, struct drain_ring *ring) {
    uint64_t head = atomic_load_explicit(&ring->control->head, memory_order_acquire);
    uint64_t used = head - ring->tail, at = ring->tail & (drain->ring_bytes - 1);
    if (ring->is_abandoned || used > drain->ring_bytes || head % 8 != 0)
        return 0; /* the next run finds that out */
    uint64_t first = used < drain->ring_bytes - at ? used : drain->ring_bytes - at;
    memset(ring->data + at, 0, first);
    memset(ring->data, 0, used - first);
    ring->tail = head;
    ring->stall_since_ns = 0;
    atomic_store_explicit(&ring->control->tail, head, memory_order_release);
    return used;
}

uint64_t drain_discard(struct drain *drain) {
    uint64_t bytes = 0, record = sizeof(struct ring_sample);
    for (uint32_t i = 0; i < drain->ring_count; i++)
        bytes += discard_ring(drain, &drain->rings[i]);
    if (drain->records > 0)
        record = drain->taken / drain->records;
    return (bytes + record - 1) / record;
}

void drain_read_counts(const struct drain *drain, struct drain_counts *counts) {
    for (int i = 0; i < RING_DROP_COUNT; i++)
        counts->drops[i] = atomic_load_explicit(ring_drops(drain->header, i), memory_order_relaxed);
    counts->handler_count =
        atomic_load_explicit(&drain->header->handler_count, memory_order_relaxed);
    counts->handler_ns = atomic_load_explicit(&drain->header->handler_ns, memory_order_relaxed);
}
