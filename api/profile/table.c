/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/table.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 64

static uint64_t fold(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Eight bytes a step, each folded by a full 64x64 product; the tail is padded with its length. */
uint32_t profile_hash(uint64_t seed, const void *data, size_t len) {
    const uint64_t odd = 0xd6e8feb86659fd93u, other = 0xa5a3564e27f88a63u;
    const unsigned char *at = data;
    uint64_t state = seed ^ (len * odd), word;
    for (; len >= 8; len -= 8, at += 8) {
        memcpy(&word, at, 8);
        state = fold(state ^ word, odd) ^ other;
    }
    word = 0;
    if (len)
        memcpy(&word, at, len);
    state = fold(fold(state ^ word, odd), other);
    return (uint32_t)(state ^ (state >> 32));
}

void profile_table_init(struct profile_table *table, size_t item_size) {
    *table = (struct profile_table){.item_size = item_size};
}

void profile_table_finish(struct profile_table *table) {
    free(table->items);
    free(table->hashes);
    free(table->slots);
    *table = (struct profile_table){.item_size = table->item_size};
}

void *profile_table_item(const struct profile_table *table, uint32_t number) {
    return table->items + number * table->item_size;
}

uint32_t profile_table_find(const struct profile_table *table, uint32_t hash,
                            profile_table_equal *equal, const void *context, const void *key) {
    if (table->indexed == 0)
        return PROFILE_TABLE_NONE;
    uint32_t mask = table->slot_count - 1;
    for (uint32_t at = hash & mask; table->slots[at]; at = (at + 1) & mask) {
        uint32_t number = table->slots[at] - 1;
        if (table->hashes[number] == hash && equal(context, profile_table_item(table, number), key))
            return number;
    }
    return PROFILE_TABLE_NONE;
}

static void occupy(struct profile_table *table, uint32_t number) {
    uint32_t mask = table->slot_count - 1, at = table->hashes[number] & mask;
    while (table->slots[at])
        at = (at + 1) & mask;
    table->slots[at] = number + 1;
}

static bool grow(struct profile_table *table, uint32_t capacity) {
    char *items = realloc(table->items, capacity * table->item_size);
    if (items)
        table->items = items;
    uint32_t *hashes = realloc(table->hashes, capacity * sizeof *hashes);
    if (hashes)
        table->hashes = hashes;
    if (!items || !hashes)
        return false;
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

/* Twice as many slots as items, so that probing stays short. */
static bool has_slots(struct profile_table *table) {
    if (table->slot_count >= table->capacity * 2)
        return true;
    uint32_t *slots = calloc((size_t)table->capacity * 2, sizeof *slots);
    if (!slots)
        return false;
    free(table->slots);
    table->slots = slots;
    table->slot_count = table->capacity * 2;
    for (uint32_t i = 0; i < table->indexed; i++)
        occupy(table, i);
    return true;
}

void *profile_table_append(struct profile_table *table) {
    if (!has_room(table))
        return NULL;
    return memset(profile_table_item(table, table->count++), 0, table->item_size);
}

bool profile_table_index(struct profile_table *table, profile_table_hash_of *hash_of,
                         const void *context) {
    if (table->indexed == table->count)
        return true;
    if (!has_slots(table))
        return false;
    for (; table->indexed < table->count; table->indexed++) {
        table->hashes[table->indexed] = hash_of(context, profile_table_item(table, table->indexed));
        occupy(table, table->indexed);
    }
    return true;
}

void *profile_table_add(struct profile_table *table, uint32_t hash) {
    if (!has_room(table) || !has_slots(table))
        return NULL;
    uint32_t number = table->count++;
    table->hashes[number] = hash;
    occupy(table, number);
    table->indexed = table->count;
    return memset(profile_table_item(table, number), 0, table->item_size);
}

size_t profile_table_growth(const struct profile_table *table) {
    if (table->count < table->capacity)
        return 0;
    return table->capacity ? profile_table_bytes(table)
                           : FIRST_CAPACITY * (table->item_size + 3 * sizeof(uint32_t));
}
