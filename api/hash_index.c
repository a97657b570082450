/* SPDX-License-Identifier: Apache-2.0 */
#include "api/hash_index.h"

#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/random.h>

#define FIRST_SLOTS 64u
#define ODD         0xa5a3564e27f88a63u

/* Used if a seccomp filter refuses getrandom: the random bytes that the kernel gave this process at
 * exec. They are the same for every index, so the index's address is mixed in. */
static void seed_without_getrandom(struct hash_index *index) {
    const void *bytes = (const void *)getauxval(AT_RANDOM);
    uint64_t words[2] = {0};
    if (bytes)
        memcpy(words, bytes, sizeof words);
    index->seed[0] = hash_fold(words[0] ^ (uintptr_t)index, ODD);
    index->seed[1] = hash_fold(words[1] ^ (uintptr_t)&words, ODD);
}

void hash_index_init(struct hash_index *index) {
    *index = (struct hash_index){0};
    ssize_t len = getrandom(index->seed, sizeof index->seed, GRND_NONBLOCK);
    if (len != (ssize_t)sizeof index->seed)
        seed_without_getrandom(index);
}

static uint32_t slot_count(const struct hash_index *index) {
    return index->slots ? index->mask + 1 : 0;
}

static uint32_t capacity_of(uint32_t slots) {
    return slots / 4 * 3;
}

static void put(struct hash_slot *slots, uint32_t mask, struct hash_slot entry) {
    uint32_t at = entry.hash & mask;
    while (slots[at].entry != 0)
        at = (at + 1) & mask;
    slots[at] = entry;
}

static bool resize(struct hash_index *index, uint32_t slots) {
    struct hash_slot *grown = calloc(slots, sizeof *grown);
    if (!grown)
        return false;
    for (uint32_t i = 0; i < slot_count(index); i++)
        if (index->slots[i].entry != 0)
            put(grown, slots - 1, index->slots[i]);
    free(index->slots);
    index->slots = grown;
    index->mask = slots - 1;
    return true;
}

static uint32_t next_slot_count(const struct hash_index *index) {
    return index->slots ? 2 * slot_count(index) : FIRST_SLOTS;
}

bool hash_index_reserve(struct hash_index *index, uint32_t count) {
    uint32_t slots = index->slots ? slot_count(index) : FIRST_SLOTS;
    if (count > HASH_INDEX_MAX)
        return false;
    while (capacity_of(slots) < count)
        slots *= 2;
    return slots == slot_count(index) || resize(index, slots);
}

bool hash_index_add(struct hash_index *index, uint32_t hash, uint32_t number) {
    uint32_t slots = slot_count(index);
    if (index->count >= HASH_INDEX_MAX || number == HASH_INDEX_NONE)
        return false;
    if (index->count >= capacity_of(slots) && !resize(index, next_slot_count(index)) &&
        index->count >= slots / 8 * 7)
        return false;
    put(index->slots, index->mask, (struct hash_slot){hash, number + 1});
    index->count++;
    return true;
}

void hash_index_clear(struct hash_index *index) {
    if (index->count > 0)
        memset(index->slots, 0, hash_index_bytes(index));
    index->count = 0;
}

void hash_index_finish(struct hash_index *index) {
    free(index->slots);
    index->slots = NULL;
    index->mask = index->count = 0;
}

size_t hash_index_bytes(const struct hash_index *index) {
    return (size_t)slot_count(index) * sizeof *index->slots;
}

size_t hash_index_growth(const struct hash_index *index) {
    if (index->count < capacity_of(slot_count(index)))
        return 0;
    return (size_t)next_slot_count(index) * sizeof *index->slots - hash_index_bytes(index);
}

/* Mixes 16 bytes per step. The tail is padded with zeros; the length, which is mixed in first,
 * distinguishes it from data that ends in zeros. */
uint32_t hash_index_data(const struct hash_index *index, const void *data, size_t len) {
    const unsigned char *at = data;
    uint64_t state = len * ODD, words[2];
    for (; len > sizeof words; len -= sizeof words, at += sizeof words) {
        memcpy(words, at, sizeof words);
        state = hash_index_mix(index, words[0] ^ state, words[1]);
    }
    words[0] = words[1] = 0;
    if (len > 0)
        memcpy(words, at, len);
    return hash_index_words(index, words[0] ^ state, words[1]);
}

uint64_t hash_index_distance(const struct hash_index *index) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < slot_count(index); i++)
        if (index->slots[i].entry != 0)
            sum += (i - index->slots[i].hash) & index->mask;
    return sum;
}
