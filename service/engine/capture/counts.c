/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/capture/counts.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 256

static uint32_t key_hash(const struct hash_index *index, const struct count_key *key) {
    uint64_t numbers = (uint64_t)key->label << 52 ^ (uint64_t)key->stack << 32 ^ key->thread;
    return hash_index_words(index, numbers, key->request);
}

static struct count_entry *find(const struct counts *counts, uint32_t hash,
                                const struct count_key *key) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&counts->index, &probe)) != HASH_INDEX_NONE) {
        struct count_entry *entry = &counts->entries[number];
        if (entry->key.stack == key->stack && entry->key.thread == key->thread &&
            entry->key.label == key->label && entry->key.request == key->request)
            return entry;
    }
    return NULL;
}

static sonde_err grow(struct counts *counts) {
    uint32_t capacity = counts->capacity ? counts->capacity * 2 : FIRST_CAPACITY;
    struct count_entry *entries = realloc(counts->entries, capacity * sizeof *entries);
    if (!entries)
        return SONDE_OUT_OF_MEMORY;
    counts->entries = entries;
    counts->capacity = capacity;
    return SONDE_OK;
}

static sonde_err add_entry(struct counts *counts, uint32_t hash, const struct count_key *key,
                           uint64_t n) {
    if (counts->used >= COUNTS_MAX)
        return SONDE_TOO_LARGE;
    if (counts->used == counts->capacity) {
        sonde_err err = grow(counts);
        if (err)
            return err;
    }
    if (!hash_index_add(&counts->index, hash, counts->used))
        return SONDE_OUT_OF_MEMORY;
    counts->entries[counts->used++] = (struct count_entry){.key = *key, .count = n};
    counts->total += n;
    return SONDE_OK;
}

sonde_err counts_add(struct counts *counts, const struct count_key *key, uint64_t n) {
    if (n == 0)
        return SONDE_OK;
    if (n > COUNTS_MAX_TOTAL - counts->total)
        return SONDE_TOO_LARGE;
    if (!counts->entries)
        hash_index_init(&counts->index);
    uint32_t hash = key_hash(&counts->index, key);
    struct count_entry *entry = find(counts, hash, key);
    if (!entry && counts->used >= COUNTS_MAX_REQUESTS && key->request != 0) {
        struct count_key without_request = *key;
        without_request.request = 0;
        return counts_add(counts, &without_request, n);
    }
    if (!entry)
        return add_entry(counts, hash, key, n);
    entry->count += n;
    counts->total += n;
    return SONDE_OK;
}

void counts_finish(struct counts *counts) {
    free(counts->entries);
    hash_index_finish(&counts->index);
    memset(counts, 0, sizeof *counts);
}

static uint64_t scramble(uint64_t word) {
    return hash_fold(word ^ 0xa5a3564e27f88a63u, 0xd6e8feb86659fd93u);
}

void thinner_init(struct thinner *thinner, uint64_t period_ns, uint64_t seed) {
    *thinner = (struct thinner){.period_ns = period_ns, .random = scramble(seed) | 1};
    hash_index_init(&thinner->index);
}

void thinner_finish(struct thinner *thinner) {
    free(thinner->threads);
    hash_index_finish(&thinner->index);
    thinner->threads = NULL;
    thinner->capacity = thinner->used = 0;
}

static uint64_t random_below(struct thinner *thinner, uint64_t bound) {
    thinner->random ^= thinner->random << 13;
    thinner->random ^= thinner->random >> 7;
    thinner->random ^= thinner->random << 17;
    return scramble(thinner->random) % bound;
}

static struct thinner_thread *find_thread(const struct thinner *thinner, uint32_t hash,
                                          uint32_t tid) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&thinner->index, &probe)) != HASH_INDEX_NONE)
        if (thinner->threads[number].tid == tid)
            return &thinner->threads[number];
    return NULL;
}

static bool has_room(struct thinner *thinner) {
    if (thinner->used < thinner->capacity)
        return true;
    uint32_t capacity = thinner->capacity ? thinner->capacity * 2 : 64;
    struct thinner_thread *threads =
        capacity <= THINNER_MAX ? realloc(thinner->threads, capacity * sizeof *threads) : NULL;
    if (!threads)
        return false;
    thinner->threads = threads;
    thinner->capacity = capacity;
    return true;
}

/* A new thread starts at a random point of its period. NULL: there is no room for it. */
static struct thinner_thread *add_thread(struct thinner *thinner, uint32_t hash, uint32_t tid,
                                         uint64_t start_ns) {
    if (tid == 0 || !has_room(thinner) || !hash_index_add(&thinner->index, hash, thinner->used))
        return NULL;
    struct thinner_thread *thread = &thinner->threads[thinner->used++];
    *thread = (struct thinner_thread){.tid = tid, .gathered_ns = start_ns};
    return thread;
}

uint64_t thinner_take(struct thinner *thinner, uint32_t tid, uint64_t weight_ns) {
    uint32_t hash = hash_index_words(&thinner->index, tid, 0);
    struct thinner_thread *thread = find_thread(thinner, hash, tid);
    struct thinner_thread unlisted = {0};
    if (!thread) {
        unlisted.gathered_ns = random_below(thinner, thinner->period_ns);
        thread = add_thread(thinner, hash, tid, unlisted.gathered_ns);
        thread = thread ? thread : &unlisted;
    }
    thread->gathered_ns += weight_ns;
    uint64_t n = thread->gathered_ns / thinner->period_ns;
    thread->gathered_ns -= n * thinner->period_ns;
    return n;
}
