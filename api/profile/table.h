/* SPDX-License-Identifier: Apache-2.0
 *
 * An interning array: items of one size, numbered from 0 in the order of adding, and found again by
 * their content through a hash index.
 *
 * The caller defines equality and hashes the key with the table's index, so that one type serves
 * strings, stacks and tree nodes. Items move when the table grows: keep numbers, not pointers.
 * Internal to api/. Thread safety: one thread at a time per table. */
#ifndef SONDE_API_PROFILE_TABLE_H
#define SONDE_API_PROFILE_TABLE_H

#include "api/hash_index.h"

#define PROFILE_TABLE_NONE HASH_INDEX_NONE

struct profile_table {
    char *items;
    size_t item_size;
    uint32_t count, capacity;
    struct hash_index index; /* of the first items; appended ones are not in it yet */
};

typedef bool profile_table_equal(const void *context, const void *item, const void *key);

void profile_table_init(struct profile_table *table, size_t item_size);
void profile_table_finish(struct profile_table *table);
/* Makes room for that many items, so that appending them moves none. False when out of memory. */
bool profile_table_expect(struct profile_table *table, uint32_t count);
/* Returns a new zeroed item, which profile_table_find ignores until profile_table_index. NULL when
 * out of memory. */
void *profile_table_append(struct profile_table *table);
typedef uint32_t profile_table_hash_of(const void *context, const void *item);
/* Indexes the appended items. Call it before the next find or add. False when out of memory. */
bool profile_table_index(struct profile_table *table, profile_table_hash_of *hash_of,
                         const void *context);
/* The number of the item equal to key, or PROFILE_TABLE_NONE. */
uint32_t profile_table_find(const struct profile_table *table, uint32_t hash,
                            profile_table_equal *equal, const void *context, const void *key);
/* A new zeroed item, number count - 1; NULL when out of memory. */
void *profile_table_add(struct profile_table *table, uint32_t hash);
void *profile_table_item(const struct profile_table *table, uint32_t number);
/* Bytes allocated, and the number of bytes that the next add will allocate on top. */
static inline size_t profile_table_bytes(const struct profile_table *table) {
    return table->capacity * table->item_size + hash_index_bytes(&table->index);
}
size_t profile_table_growth(const struct profile_table *table);

#endif
