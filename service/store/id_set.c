/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/id_set.h"

#include <stdlib.h>

void id_set_init(struct id_set *set) {
    *set = (struct id_set){0};
    hash_index_init(&set->index);
}

void id_set_finish(struct id_set *set) {
    free(set->ids);
    free(set->groups);
    hash_index_finish(&set->index);
}

static uint32_t find(const struct id_set *set, uint32_t hash, uint32_t group, uint64_t id) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&set->index, &probe)) != HASH_INDEX_NONE)
        if (set->ids[number] == id && set->groups[number] == group)
            break;
    return number;
}

uint32_t id_set_find(const struct id_set *set, uint32_t group, uint64_t id) {
    return find(set, hash_index_words(&set->index, id, group), group, id);
}

static sonde_err grow(struct id_set *set) {
    uint32_t capacity = set->capacity ? set->capacity * 2 : 1024;
    uint64_t *ids = realloc(set->ids, capacity * sizeof *ids);
    if (!ids)
        return SONDE_OUT_OF_MEMORY;
    set->ids = ids;
    uint32_t *groups = realloc(set->groups, capacity * sizeof *groups);
    if (!groups)
        return SONDE_OUT_OF_MEMORY;
    set->groups = groups;
    set->capacity = capacity;
    return SONDE_OK;
}

sonde_err id_set_add(struct id_set *set, uint32_t group, uint64_t id, uint32_t *number) {
    uint32_t hash = hash_index_words(&set->index, id, group);
    *number = find(set, hash, group, id);
    if (*number != HASH_INDEX_NONE)
        return SONDE_OK;
    sonde_err err = set->count == set->capacity ? grow(set) : SONDE_OK;
    if (err)
        return err;
    if (!hash_index_add(&set->index, hash, set->count))
        return SONDE_OUT_OF_MEMORY;
    *number = set->count++;
    set->ids[*number] = id;
    set->groups[*number] = group;
    return SONDE_OK;
}
