/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/pprof/pprof_ids.h"

struct pair {
    uint64_t from;
    uint32_t to;
};

static uint32_t hash_id(const struct pprof_ids *ids, uint64_t from) {
    return hash_index_words(&ids->table.index, from, 0);
}

static bool equal_id(const void *context, const void *item, const void *key) {
    return ((const struct pair *)item)->from == *(const uint64_t *)key;
}

/* Tries the n-th pair first, because almost every file numbers its items from 1. */
static const struct pair *find(const struct pprof_ids *ids, uint64_t from) {
    if (from - 1 < ids->table.count) {
        const struct pair *guess = profile_table_item(&ids->table, (uint32_t)(from - 1));
        if (guess->from == from)
            return guess;
    }
    uint32_t number = profile_table_find(&ids->table, hash_id(ids, from), equal_id, NULL, &from);
    return number == PROFILE_TABLE_NONE ? NULL : profile_table_item(&ids->table, number);
}

void pprof_ids_init(struct pprof_ids *ids) {
    profile_table_init(&ids->table, sizeof(struct pair));
}

sonde_err pprof_ids_add(struct pprof_ids *ids, uint64_t from, uint32_t to) {
    if (find(ids, from))
        return SONDE_CORRUPT;
    struct pair *pair = profile_table_add(&ids->table, hash_id(ids, from));
    if (!pair)
        return SONDE_OUT_OF_MEMORY;
    *pair = (struct pair){from, to};
    return SONDE_OK;
}

uint32_t pprof_ids_find(const struct pprof_ids *ids, uint64_t from) {
    const struct pair *pair = find(ids, from);
    return pair ? pair->to : 0;
}

void pprof_ids_finish(struct pprof_ids *ids) {
    profile_table_finish(&ids->table);
}
