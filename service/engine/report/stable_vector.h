/* SPDX-License-Identifier: Apache-2.0
 *
 * A vector whose items never move: one thread adds, others may read the items below a count that
 * was handed to them (by a message, hence with a happens-before). That is how a report is built on
 * a worker while the drain goes on.
 *
 * Thread safety: chunks_add by one thread; chunks_at of an item that was announced, any thread. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_STABLE_VECTOR_H
#define SONDE_SERVICE_ENGINE_REPORT_STABLE_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define CHUNKS_ITEMS 16384u /* of one chunk */
#define CHUNKS_MAX   64u

/* Zeroed memory plus item_bytes and limit is an empty vector; limit is at most CHUNKS_ITEMS *
 * CHUNKS_MAX. */
struct chunks {
    char *chunk[CHUNKS_MAX];
    size_t item_bytes;
    uint32_t count, limit;
};

static inline void *chunks_at(const struct chunks *chunks, uint32_t index) {
    return chunks->chunk[index / CHUNKS_ITEMS] + (index % CHUNKS_ITEMS) * chunks->item_bytes;
}

/* A zeroed item; NULL when the limit is reached or memory is out. */
static inline void *chunks_add(struct chunks *chunks, uint32_t *index) {
    if (chunks->count >= chunks->limit)
        return NULL;
    char **chunk = &chunks->chunk[chunks->count / CHUNKS_ITEMS];
    if (!*chunk)
        *chunk =
            calloc(chunks->limit < CHUNKS_ITEMS ? chunks->limit : CHUNKS_ITEMS, chunks->item_bytes);
    if (!*chunk)
        return NULL;
    *index = chunks->count++;
    return chunks_at(chunks, *index);
}

static inline void chunks_finish(struct chunks *chunks) {
    for (uint32_t i = 0; i < CHUNKS_MAX; i++) {
        free(chunks->chunk[i]);
        chunks->chunk[i] = NULL;
    }
    chunks->count = 0;
}

#endif
