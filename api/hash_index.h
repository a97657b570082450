/* SPDX-License-Identifier: Apache-2.0
 *
 * The project's hash table: it finds the number of an item by the item's content.
 *
 * The owner keeps its items in an array of its own and numbers them from 0. The index only stores
 * (hash, number) pairs, eight bytes each, in one open-addressed array with linear probing:
 *
 *     owner's items   [0] main  [1] parse  [2] free                 any type, any growth
 *                          ▲
 *     slots           │ hash,1 │  free  │ hash,0 │ hash,2 │  free  │
 *                       └ found here: the hashes are equal, and the owner compares item 1
 *
 * Storing the hash has three effects. A probe rejects a wrong item without touching it, so that a
 * lookup usually costs one cache miss in the slots and one in the items. Growing needs no callback.
 * The owner's comparison is inlined into the owner's loop:
 *
 *     uint32_t hash = hash_index_words(&index, key, 0), number;
 *     struct hash_probe probe = hash_probe(hash);
 *     while ((number = hash_index_next(&index, &probe)) != HASH_INDEX_NONE)
 *         if (items[number].key == key)
 *             return number;
 *     ... append the item, then hash_index_add(&index, hash, its number)
 *
 * Most keys come from somebody else: pcs and thread ids from a target, names from an uploaded
 * profile, rules from an ELF file. With a fixed hash function their author can compute keys that
 * share a slot, and n such keys cost n * n / 2 probes on a thread that serves every target. So each
 * index draws 128 random bits when it is initialised, and both operands of the hash's
 * multiplication depend on them. The seed never leaves the process: numbers follow the order of
 * adding, not the order of slots, and nothing iterates over slots. The hash is not cryptographic.
 * It withstands an author who sees no hashes and cannot time single lookups, which holds for all
 * our inputs.
 *
 * The array doubles at three quarters full and never shrinks. Items cannot be removed one by one.
 * Tables that do not use this index: caches in which a new entry overwrites an old one (a collision
 * costs a miss, never a longer probe), and the guest's tables, which may not allocate.
 *
 * Thread safety: one thread at a time per index. */
#ifndef SONDE_API_HASH_INDEX_H
#define SONDE_API_HASH_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HASH_INDEX_NONE UINT32_MAX
#define HASH_INDEX_MAX  (1u << 30) /* entries of one index */

struct hash_slot {
    uint32_t hash;
    uint32_t entry; /* item number + 1; 0 = free */
};

struct hash_index {
    struct hash_slot *slots;
    uint32_t mask; /* number of slots - 1, when there are any */
    uint32_t count;
    uint64_t seed[2];
};

/* Draws the seed; allocates nothing. */
void hash_index_init(struct hash_index *index);
/* Makes room for `count` entries in total, so that adding them neither allocates nor fails. False
 * when out of memory. */
bool hash_index_reserve(struct hash_index *index, uint32_t count);
/* Adds an entry that the owner did not find. Returns false when out of memory or beyond
 * HASH_INDEX_MAX. When memory runs out, the index first becomes fuller than it should be, and then
 * refuses entries. */
bool hash_index_add(struct hash_index *index, uint32_t hash, uint32_t number);
/* Removes all entries and keeps the memory and the seed. */
void hash_index_clear(struct hash_index *index);
/* Frees the slots. The index may be used again: it is empty and keeps its seed. */
void hash_index_finish(struct hash_index *index);

/* Bytes of the slots, and the number of bytes that the next hash_index_add will allocate on top. */
size_t hash_index_bytes(const struct hash_index *index);
size_t hash_index_growth(const struct hash_index *index);

/* The full 128-bit product of two words, folded into one. */
static inline uint64_t hash_fold(uint64_t a, uint64_t b) {
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Two words of a key as one, under the index's seed. A longer key of fixed size is hashed as a
 * tree: hash_index_words(index, hash_index_mix(index, a, b), hash_index_mix(index, c, d)). */
static inline uint64_t hash_index_mix(const struct hash_index *index, uint64_t a, uint64_t b) {
    return hash_fold(a ^ index->seed[0], b ^ index->seed[1]);
}

/* The hash of a key of one or two words. */
static inline uint32_t hash_index_words(const struct hash_index *index, uint64_t a, uint64_t b) {
    uint64_t mixed = hash_index_mix(index, a, b);
    return (uint32_t)(hash_fold(mixed ^ index->seed[0], 0xd6e8feb86659fd93u) >> 32);
}

/* The hash of a key of any length. */
uint32_t hash_index_data(const struct hash_index *index, const void *data, size_t len);

/* A walk over the entries with one hash. Valid until the index is changed. */
struct hash_probe {
    uint32_t hash, at;
};

static inline struct hash_probe hash_probe(uint32_t hash) {
    return (struct hash_probe){hash, hash};
}

/* The number of the next item whose hash is equal, for the owner to compare; HASH_INDEX_NONE after
 * the last one. */
static inline uint32_t hash_index_next(const struct hash_index *index, struct hash_probe *probe) {
    if (index->count == 0)
        return HASH_INDEX_NONE;
    for (;;) {
        struct hash_slot slot = index->slots[probe->at++ & index->mask];
        if (slot.entry == 0)
            return HASH_INDEX_NONE;
        if (slot.hash == probe->hash)
            return slot.entry - 1;
    }
}

/* For tests: the sum over all entries of the slots between an entry and its hash's own slot, which
 * is what hostile keys would drive up. */
uint64_t hash_index_distance(const struct hash_index *index);

#endif
