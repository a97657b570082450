/* SPDX-License-Identifier: Apache-2.0
 *
 * Growing arrays. The owner has a pointer to the items, their count and their capacity, all zero
 * for an empty array, and frees the items:
 *
 *     if (!array_room(&list->items, &list->capacity, list->count, 1))
 *         return SONDE_OUT_OF_MEMORY;
 *     list->items[list->count++] = item;
 *
 * The capacity at least doubles, so that adding is cheap. A caller that needs a limit checks the
 * count. Thread safety: one thread at a time per array. */
#ifndef SONDE_API_BASE_ARRAY_H
#define SONDE_API_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Makes the capacity, a size_t or a uint32_t, sufficient for `more` items after `count`. New items
 * are not initialized. Returns false if the capacity would overflow or memory runs out; the array
 * is then unchanged. */
#define array_room(items, capacity, count, more) \
    array_room_sized(items, sizeof **(items), capacity, count, more)

/* The same for items whose size the compiler does not know; `items` points to the pointer. */
#define array_room_sized(items, size, capacity, count, more) \
    ARRAY_ROOM_FOR(capacity)(items, size, capacity, count, more)

/* clang-format off */
#define ARRAY_ROOM_FOR(capacity) \
    _Generic((capacity), size_t *: array_room_long, uint32_t *: array_room_short)
/* clang-format on */

/* Called by the macros. */
bool array_grow_long(void *items, size_t size, size_t *capacity, size_t count, size_t more);
bool array_grow_short(void *items, size_t size, uint32_t *capacity, size_t count, size_t more);

static inline bool array_room_long(void *items, size_t size, size_t *capacity, size_t count,
                                   size_t more) {
    return (count <= *capacity && more <= *capacity - count) ||
           array_grow_long(items, size, capacity, count, more);
}

static inline bool array_room_short(void *items, size_t size, uint32_t *capacity, size_t count,
                                    size_t more) {
    return (count <= *capacity && more <= *capacity - count) ||
           array_grow_short(items, size, capacity, count, more);
}

#endif
