/* SPDX-License-Identifier: Apache-2.0 */
#include "api/base/array.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 16

/* Returns the new capacity; 0 on failure. */
static size_t grow(void *items, size_t size, size_t capacity, size_t count, size_t more,
                   size_t largest) {
    size_t needed, wanted = capacity > largest / 2 ? largest : 2 * capacity;
    if (__builtin_add_overflow(count, more, &needed) || needed > largest)
        return 0;
    if (wanted < FIRST_CAPACITY)
        wanted = FIRST_CAPACITY;
    if (wanted < needed)
        wanted = needed;
    /* Copied, because the pointer may have any type. */
    void *block;
    memcpy(&block, items, sizeof block);
    block = reallocarray(block, wanted, size);
    if (!block)
        return 0;
    memcpy(items, &block, sizeof block);
    return wanted;
}

bool array_grow_long(void *items, size_t size, size_t *capacity, size_t count, size_t more) {
    size_t wanted = grow(items, size, *capacity, count, more, SIZE_MAX / size);
    *capacity = wanted ? wanted : *capacity;
    return wanted != 0;
}

bool array_grow_short(void *items, size_t size, uint32_t *capacity, size_t count, size_t more) {
    size_t wanted = grow(items, size, *capacity, count, more, UINT32_MAX);
    *capacity = wanted ? (uint32_t)wanted : *capacity;
    return wanted != 0;
}
