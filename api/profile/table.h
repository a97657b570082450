/* SPDX-License-Identifier: Apache-2.0
 *
 * An interning array: items of one size, dense numbers in the order of adding, found again by
 * content.
 *
 * The caller owns what equality means and hashes the key itself (profile_hash), so that one table
 * serves strings, stacks and tree nodes. Items move when the table grows: hold numbers, not
 * pointers. Hashes are seeded by the caller because keys may be hostile. Internal to api/. Thread
 * safety: one thread at a time per table. */
#ifndef SONDE_API_PROFILE_TABLE_H
#define SONDE_API_PROFILE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROFILE_TABLE_NONE UINT32_MAX

struct profile_table {
    char *items;
    uint32_t *hashes; /* one an item */
    uint32_t *slots;  /* open addressing, item number + 1; 0 = free */
    size_t item_size;
    uint32_t count, capacity, slot_count;
    uint32_t indexed; /* the first ones; the others cannot be found yet */
};

typedef bool profile_table_equal(const void *context, const void *item, const void *key);

void profile_table_init(struct profile_table *table, size_t item_size);
void profile_table_finish(struct profile_table *table);
/* Room for that many items, so that adding them moves nothing; false when out of memory. */
bool profile_table_expect(struct profile_table *table, uint32_t count);
/* A new zeroed item that is not looked for until profile_table_index; NULL when out of memory. */
void *profile_table_append(struct profile_table *table);
typedef uint32_t profile_table_hash_of(const void *context, const void *item);
/* Makes what was appended findable, before the next find or add; false when out of memory. */
bool profile_table_index(struct profile_table *table, profile_table_hash_of *hash_of,
                         const void *context);
/* The number of the item equal to key, or PROFILE_TABLE_NONE. */
uint32_t profile_table_find(const struct profile_table *table, uint32_t hash,
                            profile_table_equal *equal, const void *context, const void *key);
/* A new zeroed item, number count - 1; NULL when out of memory. */
void *profile_table_add(struct profile_table *table, uint32_t hash);
void *profile_table_item(const struct profile_table *table, uint32_t number);
/* Bytes held, and bytes more that the next add would hold. */
static inline size_t profile_table_bytes(const struct profile_table *table) {
    return table->capacity * (table->item_size + 3 * sizeof(uint32_t));
}
size_t profile_table_growth(const struct profile_table *table);

uint32_t profile_hash(uint64_t seed, const void *data, size_t len);

#endif
