/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/counting/counts.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 256

static uint32_t key_hash(const struct hash_index *index, const struct count_key *key) {
    uint64_t numbers = (uint64_t)key->label << 52 ^ (uint64_t)key->stack << 32 ^ key->thread;
    return hash_index_words(index, numbers, key->request ^ (uint64_t)key->lock << 32);
}

static struct count_entry *find(const struct counts *counts, uint32_t hash,
                                const struct count_key *key) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&counts->index, &probe)) != HASH_INDEX_NONE) {
        struct count_entry *entry = &counts->entries[number];
        if (entry->key.stack == key->stack && entry->key.thread == key->thread &&
            entry->key.label == key->label && entry->key.lock == key->lock &&
            entry->key.request == key->request)
            return entry;
    }
    return NULL;
}

static sonde_err grow(struct counts *counts) {
    uint32_t capacity = counts->capacity ? counts->capacity * 2 : FIRST_CAPACITY;
    if (!memory_share_take(&counts->share, (capacity - counts->capacity) * sizeof *counts->entries))
        return SONDE_OUT_OF_MEMORY;
    struct count_entry *entries = realloc(counts->entries, capacity * sizeof *entries);
    if (!entries)
        return SONDE_OUT_OF_MEMORY;
    counts->entries = entries;
    counts->capacity = capacity;
    return SONDE_OK;
}

static sonde_err add_entry(struct counts *counts, uint32_t hash, const struct count_key *key) {
    if (counts->used >= COUNTS_MAX)
        return SONDE_TOO_LARGE;
    if (counts->used == counts->capacity) {
        sonde_err err = grow(counts);
        if (err)
            return err;
    }
    if (!memory_share_take(&counts->share, hash_index_growth(&counts->index)) ||
        !hash_index_add(&counts->index, hash, counts->used))
        return SONDE_OUT_OF_MEMORY;
    counts->last = counts->used;
    counts->entries[counts->used++] = (struct count_entry){.key = *key};
    return SONDE_OK;
}

sonde_err counts_add(struct counts *counts, const struct count_key *key, uint64_t n, double waits) {
    if (n == 0 && waits == 0)
        return SONDE_OK;
    if (n > COUNTS_MAX_TOTAL - counts->total)
        return SONDE_TOO_LARGE;
    if (!counts->entries)
        hash_index_init(&counts->index);
    uint32_t hash = key_hash(&counts->index, key);
    const struct count_entry *entry = find(counts, hash, key);
    if (!entry && counts->used >= COUNTS_MAX_REQUESTS && key->request != 0) {
        struct count_key without_request = *key;
        without_request.request = 0;
        return counts_add(counts, &without_request, n, waits);
    }
    sonde_err err = entry ? SONDE_OK : add_entry(counts, hash, key);
    if (err)
        return err;
    if (entry)
        counts->last = (uint32_t)(entry - counts->entries);
    counts->entries[counts->last].count += n;
    counts->entries[counts->last].waits += waits;
    counts->total += n;
    return SONDE_OK;
}

void counts_finish(struct counts *counts) {
    free(counts->entries);
    hash_index_finish(&counts->index);
    memory_share_finish(&counts->share);
    memset(counts, 0, sizeof *counts);
}
