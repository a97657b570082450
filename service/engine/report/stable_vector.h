/* SPDX-License-Identifier: Apache-2.0
 *
 * A vector whose items never move. One thread appends, while others read the items below a count
 * that they received in a message. So a worker can build a report while the drain goes on.
 *
 * The first chunks double, so that a small vector takes little memory:
 *
 *     256 | 256 | 512 | 1024 | ... | 8192 | 16384 | 16384 | ...
 *
 * Thread safety: stable_vector_add by one thread; stable_vector_at by any thread that knows of the
 * item by a message. */
#ifndef SONDE_SERVICE_ENGINE_REPORT_STABLE_VECTOR_H
#define SONDE_SERVICE_ENGINE_REPORT_STABLE_VECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#define STABLE_VECTOR_FIRST  256u   /* items of the first chunk */
#define STABLE_VECTOR_ITEMS  16384u /* of a large one */
#define STABLE_VECTOR_SMALL  7u     /* number of chunks with the first STABLE_VECTOR_ITEMS items */
#define STABLE_VECTOR_LARGE  63u
#define STABLE_VECTOR_CHUNKS (STABLE_VECTOR_SMALL + STABLE_VECTOR_LARGE)

/* Zeroed memory with item_bytes and limit set is an empty vector. The largest limit is
 * STABLE_VECTOR_ITEMS * (1 + STABLE_VECTOR_LARGE). */
struct stable_vector {
    char *chunk[STABLE_VECTOR_CHUNKS];
    size_t item_bytes;
    uint32_t count, limit;
};

/* Where an item is. */
struct stable_place {
    uint32_t chunk, first, size; /* number of the chunk, its first item, its number of items */
};

static inline struct stable_place stable_vector_place(uint32_t index) {
    if (index < STABLE_VECTOR_FIRST)
        return (struct stable_place){0, 0, STABLE_VECTOR_FIRST};
    if (index < STABLE_VECTOR_ITEMS) {
        uint32_t bit = 31u - (uint32_t)__builtin_clz(index);
        return (struct stable_place){bit - 7, 1u << bit, 1u << bit};
    }
    uint32_t large = index / STABLE_VECTOR_ITEMS;
    return (struct stable_place){STABLE_VECTOR_SMALL - 1 + large, large * STABLE_VECTOR_ITEMS,
                                 STABLE_VECTOR_ITEMS};
}

static inline void *stable_vector_at(const struct stable_vector *vector, uint32_t index) {
    struct stable_place place = stable_vector_place(index);
    return vector->chunk[place.chunk] + (index - place.first) * vector->item_bytes;
}

/* Bytes that the next stable_vector_add allocates. */
static inline size_t stable_vector_growth(const struct stable_vector *vector) {
    struct stable_place place = stable_vector_place(vector->count);
    bool has_chunk = vector->count >= vector->limit || vector->chunk[place.chunk];
    return has_chunk ? 0 : place.size * vector->item_bytes;
}

/* Appends a zeroed item. NULL at the limit or when out of memory. */
static inline void *stable_vector_add(struct stable_vector *vector, uint32_t *index) {
    struct stable_place place = stable_vector_place(vector->count);
    if (vector->count >= vector->limit)
        return NULL;
    if (!vector->chunk[place.chunk])
        vector->chunk[place.chunk] = calloc(place.size, vector->item_bytes);
    if (!vector->chunk[place.chunk])
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
