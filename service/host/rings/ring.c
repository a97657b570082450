/* SPDX-License-Identifier: Apache-2.0
 *
 * data_head and data_tail only grow; their remainders by the size of the data are positions in it.
 * The kernel writes up to data_head, and never over what is after data_tail. */
#include "service/host/rings/ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct perf_event_mmap_page *page_of(const struct ring *ring) {
    return (struct perf_event_mmap_page *)(void *)ring->base;
}

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

int ring_map(struct ring *ring, int event_fd, size_t data_bytes) {
    *ring = (struct ring){0};
    void *base =
        mmap(NULL, page_bytes() + data_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, event_fd, 0);
    if (base == MAP_FAILED)
        return -errno;
    ring->base = base;
    ring->data_bytes = data_bytes;
    ring->tail = ring->head = __atomic_load_n(&page_of(ring)->data_tail, __ATOMIC_RELAXED);
    return 0;
}

void ring_unmap(struct ring *ring) {
    if (ring->base)
        munmap(ring->base, page_bytes() + ring->data_bytes);
    *ring = (struct ring){0};
}

static enum ring_look give_up(struct ring *ring) {
    ring->tail = ring->head;
    ring->record_size = 0;
    ring_release(ring);
    return RING_INVALID;
}

enum ring_look ring_peek(struct ring *ring, uint8_t *space, const uint8_t **record) {
    struct perf_event_header header;
    if (ring->tail == ring->head)
        ring->head = __atomic_load_n(&page_of(ring)->data_head, __ATOMIC_ACQUIRE);
    uint64_t filled = ring->head - ring->tail;
    if (filled == 0)
        return RING_EMPTY;
    size_t at = ring->tail & (ring->data_bytes - 1);
    if (filled > ring->data_bytes || filled < sizeof header || at % 8)
        return give_up(ring);
    const uint8_t *data = ring->base + page_bytes();
    memcpy(&header, data + at, sizeof header); /* 8 bytes at a multiple of 8 do not wrap */
    size_t size = header.size, before = ring->data_bytes - at;
    if (size < sizeof header || size % 8 || size > filled)
        return give_up(ring);
    *record = data + at;
    if (size > before) {
        memcpy(space, data + at, before);
        memcpy(space + before, data, size - before);
        *record = space;
    }
    ring->record_size = size;
    return RING_RECORD;
}

void ring_pop(struct ring *ring) {
    ring->tail += ring->record_size;
    ring->record_size = 0;
}

void ring_release(struct ring *ring) {
    __atomic_store_n(&page_of(ring)->data_tail, ring->tail, __ATOMIC_RELEASE);
}
