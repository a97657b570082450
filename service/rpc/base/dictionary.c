/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/base/dictionary.h"

#include "api/base/array.h"

#include <stdlib.h>
#include <string.h>

void dictionary_init(struct dictionary *dictionary, size_t limit_bytes) {
    *dictionary = (struct dictionary){.limit_bytes = limit_bytes};
    hash_index_init(&dictionary->index);
}

static uint32_t find(const struct dictionary *dictionary, uint32_t hash, const void *bytes,
                     size_t len) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&dictionary->index, &probe)) != HASH_INDEX_NONE) {
        const struct dictionary_item *item = &dictionary->items[number];
        if (item->len == len && memcmp(item->bytes, bytes, len) == 0)
            break;
    }
    return number;
}

static size_t bytes_held(const struct dictionary *dictionary) {
    return dictionary->arena.total +
           dictionary->count * (sizeof(struct dictionary_item) + sizeof(struct hash_slot));
}

uint32_t dictionary_add(struct dictionary *dictionary, const void *bytes, size_t len,
                        bool *is_new) {
    uint32_t hash = hash_index_data(&dictionary->index, bytes, len);
    uint32_t number = find(dictionary, hash, bytes, len);
    *is_new = false;
    if (number != DICTIONARY_NONE)
        return number;
    if (len > dictionary->limit_bytes || bytes_held(dictionary) > dictionary->limit_bytes - len)
        return DICTIONARY_NONE;
    char *copy = array_room(&dictionary->items, &dictionary->capacity, dictionary->count, 1)
                     ? sonde_arena_dup(&dictionary->arena, bytes, len)
                     : NULL;
    if (!copy || !hash_index_add(&dictionary->index, hash, dictionary->count))
        return DICTIONARY_NONE;
    dictionary->items[dictionary->count] = (struct dictionary_item){copy, (uint32_t)len};
    *is_new = true;
    return dictionary->count++;
}

void dictionary_finish(struct dictionary *dictionary) {
    sonde_arena_finish(&dictionary->arena);
    free(dictionary->items);
    hash_index_finish(&dictionary->index);
}
