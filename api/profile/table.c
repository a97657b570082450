/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/table.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64

void profile_table_init(struct profile_table *table, size_t item_size) {
    *table = (struct profile_table){.item_size = item_size};
    hash_index_init(&table->index);
}

void profile_table_finish(struct profile_table *table) {
    free(table->items);
    hash_index_finish(&table->index);
    table->items = NULL;
    table->count = table->capacity = 0;
}

void *profile_table_item(const struct profile_table *table, uint32_t number) {
    return table->items + number * table->item_size;
}

uint32_t profile_table_find(const struct profile_table *table, uint32_t hash,
                            profile_table_equal *equal, const void *context, const void *key) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&table->index, &probe)) != HASH_INDEX_NONE)
        if (equal(context, profile_table_item(table, number), key))
            break;
    return number;
}

static bool grow(struct profile_table *table, uint32_t capacity) {
    char *items = realloc(table->items, capacity * table->item_size);
    if (!items)
        return false;
    table->items = items;
    table->capacity = capacity;
    return true;
}

static bool has_room(struct profile_table *table) {
    if (table->count < table->capacity)
        return true;
    if (table->capacity >= (UINT32_MAX >> 2))
        return false;
    return grow(table, table->capacity ? table->capacity * 2 : FIRST_CAPACITY);
}

bool profile_table_expect(struct profile_table *table, uint32_t count) {
    uint32_t capacity = table->capacity ? table->capacity : FIRST_CAPACITY;
    if (count > (UINT32_MAX >> 2))
        return false;
    while (capacity < count)
        capacity *= 2;
    return capacity == table->capacity || grow(table, capacity);
}

void *profile_table_append(struct profile_table *table) {
    if (!has_room(table))
        return NULL;
    return memset(profile_table_item(table, table->count++), 0, table->item_size);
}

bool profile_table_index(struct profile_table *table, profile_table_hash_of *hash_of,
                         const void *context) {
    if (table->index.count == table->count)
        return true;
    if (!hash_index_reserve(&table->index, table->count))
        return false;
    for (uint32_t i = table->index.count; i < table->count; i++)
        if (!hash_index_add(&table->index, hash_of(context, profile_table_item(table, i)), i))
            return false;
    return true;
}

void *profile_table_add(struct profile_table *table, uint32_t hash) {
    if (!has_room(table) || !hash_index_add(&table->index, hash, table->count))
        return NULL;
    return memset(profile_table_item(table, table->count++), 0, table->item_size);
}

size_t profile_table_growth(const struct profile_table *table) {
    size_t items = table->count < table->capacity ? 0
                   : table->capacity              ? table->capacity
                                                  : FIRST_CAPACITY;
    return items * table->item_size + hash_index_growth(&table->index);
}
