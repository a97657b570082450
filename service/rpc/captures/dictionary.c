/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/captures/dictionary.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 32

void intern_init(struct intern *intern, size_t limit_bytes) {
    *intern = (struct intern){.limit_bytes = limit_bytes};
    hash_index_init(&intern->index);
}

static bool has_room(struct intern *intern) {
    if (intern->count < intern->capacity)
        return true;
    uint32_t capacity = intern->capacity ? intern->capacity * 2 : FIRST_CAPACITY;
    struct intern_item *items = realloc(intern->items, capacity * sizeof *items);
    if (!items)
        return false;
    intern->items = items;
    intern->capacity = capacity;
    return true;
}

static uint32_t find(const struct intern *intern, uint32_t hash, const void *bytes, size_t len) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&intern->index, &probe)) != HASH_INDEX_NONE) {
        const struct intern_item *item = &intern->items[number];
        if (item->len == len && memcmp(item->bytes, bytes, len) == 0)
            break;
    }
    return number;
}

static size_t bytes_held(const struct intern *intern) {
    return intern->arena.total +
           intern->count * (sizeof(struct intern_item) + sizeof(struct hash_slot));
}

uint32_t intern_add(struct intern *intern, const void *bytes, size_t len, bool *is_new) {
    uint32_t hash = hash_index_data(&intern->index, bytes, len);
    uint32_t number = find(intern, hash, bytes, len);
    *is_new = false;
    if (number != INTERN_NONE)
        return number;
    if (len > intern->limit_bytes || bytes_held(intern) > intern->limit_bytes - len)
        return INTERN_NONE;
    char *copy = has_room(intern) ? sonde_arena_dup(&intern->arena, bytes, len) : NULL;
    if (!copy || !hash_index_add(&intern->index, hash, intern->count))
        return INTERN_NONE;
    intern->items[intern->count] = (struct intern_item){copy, (uint32_t)len};
    *is_new = true;
    return intern->count++;
}

void intern_finish(struct intern *intern) {
    sonde_arena_finish(&intern->arena);
    free(intern->items);
    hash_index_finish(&intern->index);
}
