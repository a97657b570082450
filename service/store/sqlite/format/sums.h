/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums by (thread, stack): the innermost loop of every query, so its hash table is its own: keys
 * and sums are in one array, and the keys are dense numbers of ours. One thread at a time. */
#ifndef SONDE_SERVICE_STORE_SQLITE_FORMAT_SUMS_H
#define SONDE_SERVICE_STORE_SQLITE_FORMAT_SUMS_H

#include "service/store/sqlite/format/chunk.h"

#include <stdlib.h>
#include <string.h>

struct sums_item {
    uint64_t key; /* (thread << 32 | stack) + 1; 0 = free */
    int64_t value;
};

/* Zeroed memory is empty. */
struct sums {
    struct sums_item *items;
    size_t mask, count;
    bool failed; /* out of memory */
};

/* Doubles the table. */
void sums_grow(struct sums *sums);

static inline struct sums_item *sums_slot(const struct sums *sums, uint64_t key) {
    size_t at = (size_t)(key * 0x9e3779b97f4a7c15u >> 32) & sums->mask;
    while (sums->items[at].key != key && sums->items[at].key != 0)
        at = (at + 1) & sums->mask;
    return &sums->items[at];
}

static inline void sums_add(struct sums *sums, uint32_t thread, uint32_t stack, int64_t value) {
    if (sums->count * 2 >= sums->mask)
        sums_grow(sums);
    if (sums->failed)
        return;
    uint64_t key = ((uint64_t)thread << 32 | stack) + 1;
    struct sums_item *item = sums_slot(sums, key);
    sums->count += item->key == 0;
    item->key = key;
    item->value = chunk_add(item->value, value);
}

/* Moves the items to the front, in order of their keys, and returns their number; then only
 * sums_clear may follow. */
size_t sums_sort(struct sums *sums);
void sums_clear(struct sums *sums);
void sums_finish(struct sums *sums);

#endif
