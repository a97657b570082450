/* SPDX-License-Identifier: Apache-2.0
 *
 * One perf ring: memory that the kernel fills with records and this process empties. Thread safety:
 * one thread at a time. */
#ifndef SONDE_SERVICE_HOST_RINGS_RING_H
#define SONDE_SERVICE_HOST_RINGS_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
    uint8_t *base; /* a page of the kernel's state, then data_bytes of records; NULL = none */
    size_t data_bytes;
    uint64_t tail;      /* the next record */
    uint64_t head;      /* the kernel's, when it was last looked at */
    size_t record_size; /* of the record at tail, after ring_peek */
};

/* Maps the ring of an event. data_bytes is a power of two of pages. Returns 0 or -errno. */
int ring_map(struct ring *ring, int event_fd, size_t data_bytes);
void ring_unmap(struct ring *ring);

enum ring_look { RING_RECORD = 0, RING_EMPTY, RING_INVALID };

/* The next record, which stays in the ring. One that wraps around is copied to `space`, of
 * PARSE_MAX_BYTES aligned to 8. RING_INVALID: the ring breaks its rules; it is empty now. */
enum ring_look ring_peek(struct ring *ring, uint8_t *space, const uint8_t **record);
/* Takes the record that ring_peek returned. Its memory is the kernel's again after ring_release. */
void ring_pop(struct ring *ring);
void ring_release(struct ring *ring);

#endif
