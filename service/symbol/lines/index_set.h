/* SPDX-License-Identifier: Apache-2.0
 *
 * A set of indexes into somebody's array, so that equal items are kept once. The owner hashes and
 * compares; the set only finds the place. One thread. Zeroed memory is an empty set. */
#ifndef SONDE_SERVICE_SYMBOL_LINES_INDEX_SET_H
#define SONDE_SERVICE_SYMBOL_LINES_INDEX_SET_H

#include "api/bytes.h"

#define SYMBOL_INTERN_FREE UINT32_MAX

struct symbol_intern {
    uint32_t *indexes;
    uint32_t *hashes;
    size_t mask, count; /* mask 0 = nothing allocated */
};

typedef bool symbol_intern_equal(const void *context, uint32_t index, const void *item);

/* The place of the item: it holds its index, or SYMBOL_INTERN_FREE, and then the caller stores one.
 * NULL when out of memory. */
uint32_t *symbol_intern_place(struct symbol_intern *intern, uint64_t hash,
                              symbol_intern_equal *equal, const void *context, const void *item);
/* Only looks: SYMBOL_INTERN_FREE when the item is not there. */
uint32_t symbol_intern_find(const struct symbol_intern *intern, uint64_t hash,
                            symbol_intern_equal *equal, const void *context, const void *item);
/* Empties it and keeps its memory. */
void symbol_intern_clear(struct symbol_intern *intern);
void symbol_intern_finish(struct symbol_intern *intern);

#endif
