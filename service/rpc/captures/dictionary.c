/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/captures/dictionary.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64

static uint32_t hash_of(uint64_t seed, const char *bytes, size_t len) {
    uint64_t hash = seed ^ len;
    while (len > 0) {
        uint64_t word = 0;
        size_t step = len < sizeof word ? len : sizeof word;
        memcpy(&word, bytes, step);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
        bytes += step;
        len -= step;
    }
    hash *= seed | 1;
    return (uint32_t)(hash >> 32);
}

static void put_slot(struct intern *intern, uint32_t number) {
    uint32_t mask = intern->slot_count - 1, at = intern->items[number].hash & mask;
    while (intern->slots[at])
        at = (at + 1) & mask;
    intern->slots[at] = number + 1;
}

/* Twice the slots and room for half as many items. */
static bool grow(struct intern *intern) {
    uint32_t slot_count = intern->slot_count ? intern->slot_count * 2 : FIRST_SLOTS;
    uint32_t *slots = calloc(slot_count, sizeof *slots);
    struct intern_item *items = realloc(intern->items, (size_t)slot_count / 2 * sizeof *items);
    if (items)
        intern->items = items;
    if (!slots || !items) {
        free(slots);
        return false;
    }
    free(intern->slots);
    intern->slots = slots;
    intern->slot_count = slot_count;
    intern->capacity = slot_count / 2;
    for (uint32_t i = 0; i < intern->count; i++)
        put_slot(intern, i);
    return true;
}

static uint32_t find(const struct intern *intern, uint32_t hash, const void *bytes, size_t len) {
    if (intern->slot_count == 0)
        return INTERN_NONE;
    uint32_t mask = intern->slot_count - 1;
    for (uint32_t at = hash & mask; intern->slots[at]; at = (at + 1) & mask) {
        const struct intern_item *item = &intern->items[intern->slots[at] - 1];
        if (item->hash == hash && item->len == len && memcmp(item->bytes, bytes, len) == 0)
            return intern->slots[at] - 1;
    }
    return INTERN_NONE;
}

static size_t bytes_held(const struct intern *intern) {
    return intern->arena.total +
           intern->count * (sizeof(struct intern_item) + 2 * sizeof(uint32_t));
}

uint32_t intern_add(struct intern *intern, const void *bytes, size_t len, bool *is_new) {
    uint32_t hash = hash_of(intern->seed, bytes, len), number = find(intern, hash, bytes, len);
    *is_new = false;
    if (number != INTERN_NONE)
        return number;
    if (len > intern->limit_bytes || bytes_held(intern) > intern->limit_bytes - len)
        return INTERN_NONE;
    if (intern->count == intern->capacity && !grow(intern))
        return INTERN_NONE;
    char *copy = sonde_arena_dup(&intern->arena, bytes, len);
    if (!copy)
        return INTERN_NONE;
    intern->items[intern->count] = (struct intern_item){copy, (uint32_t)len, hash};
    put_slot(intern, intern->count);
    *is_new = true;
    return intern->count++;
}

void intern_finish(struct intern *intern) {
    sonde_arena_finish(&intern->arena);
    free(intern->items);
    free(intern->slots);
}
