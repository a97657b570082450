/* SPDX-License-Identifier: Apache-2.0 */
#include "service/recording/known.h"

#include "api/base/array.h"

#include <stdlib.h>

void known_init(struct known *known, uint32_t limit) {
    *known = (struct known){.limit = limit};
    hash_index_init(&known->index);
}

static struct known_id *find(struct known *known, uint32_t hash, uint64_t id) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&known->index, &probe)) != HASH_INDEX_NONE)
        if (known->items[number].id == id)
            return &known->items[number];
    return NULL;
}

static bool has_room(struct known *known) {
    if (known->count >= known->limit)
        known_clear(known);
    return array_room(&known->items, &known->capacity, known->count, 1);
}

bool known_add(struct known *known, uint64_t id, uint32_t version) {
    uint32_t hash = hash_index_words(&known->index, id, 0);
    struct known_id *item = find(known, hash, id);
    if (item && item->version >= version)
        return false;
    if (item)
        item->version = version;
    else if (has_room(known) && hash_index_add(&known->index, hash, known->count))
        known->items[known->count++] = (struct known_id){id, version};
    return true;
}

void known_clear(struct known *known) {
    hash_index_clear(&known->index);
    known->count = 0;
}

void known_finish(struct known *known) {
    hash_index_finish(&known->index);
    free(known->items);
    *known = (struct known){0};
}
