/* SPDX-License-Identifier: Apache-2.0
 *
 * A vector whose items never move. One thread appends, while others read the items below a count
 * that they received in a message. So a worker can build a report while the drain goes on.
 *
 * Thread safety: stable_vector_add by one thread; stable_vector_at by any thread that knows of the
 * item by a message. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_STABLE_VECTOR_H
#define SONDE_SERVICE_ENGINE_REPORT_STABLE_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define STABLE_VECTOR_ITEMS  16384u /* per chunk */
#define STABLE_VECTOR_CHUNKS 64u

/* Zeroed memory with item_bytes and limit set is an empty vector. The largest limit is
 * STABLE_VECTOR_ITEMS * STABLE_VECTOR_CHUNKS. */
struct stable_vector {
    char *chunk[STABLE_VECTOR_CHUNKS];
    size_t item_bytes;
    uint32_t count, limit;
};

static inline void *stable_vector_at(const struct stable_vector *vector, uint32_t index) {
    return vector->chunk[index / STABLE_VECTOR_ITEMS] +
           (index % STABLE_VECTOR_ITEMS) * vector->item_bytes;
}

/* Appends a zeroed item. NULL at the limit or when out of memory. */
static inline void *stable_vector_add(struct stable_vector *vector, uint32_t *index) {
    if (vector->count >= vector->limit)
        return NULL;
    char **chunk = &vector->chunk[vector->count / STABLE_VECTOR_ITEMS];
    if (!*chunk)
        *chunk = calloc(vector->limit < STABLE_VECTOR_ITEMS ? vector->limit : STABLE_VECTOR_ITEMS,
                        vector->item_bytes);
    if (!*chunk)
        return NULL;
    *index = vector->count++;
    return stable_vector_at(vector, *index);
}

static inline void stable_vector_finish(struct stable_vector *vector) {
    for (uint32_t i = 0; i < STABLE_VECTOR_CHUNKS; i++) {
        free(vector->chunk[i]);
        vector->chunk[i] = NULL;
    }
    vector->count = 0;
}

#endif
