/* SPDX-License-Identifier: Apache-2.0 */
#include "api/hash_index.h"
#include "tests/unit/check.h"
#include "tests/unit/colliding_keys.h"

#include <stdlib.h>

/* The owner of an index of numbers, as small as one can be. */
struct set {
    struct hash_index index;
    uint64_t *keys;
    uint32_t count;
    uint64_t compared; /* keys whose hashes were equal */
};

static void set_init(struct set *set, uint32_t capacity) {
    *set = (struct set){.keys = calloc(capacity, sizeof *set->keys)};
    hash_index_init(&set->index);
}

static void set_finish(struct set *set) {
    hash_index_finish(&set->index);
    free(set->keys);
}

static uint32_t find_by_hash(struct set *set, uint32_t hash, uint64_t key) {
    struct hash_probe probe = hash_probe(hash);
    uint32_t number;
    while ((number = hash_index_next(&set->index, &probe)) != HASH_INDEX_NONE) {
        set->compared++;
        if (set->keys[number] == key)
            break;
    }
    return number;
}

static uint32_t find(struct set *set, uint64_t key) {
    return find_by_hash(set, hash_index_words(&set->index, key, 0), key);
}

static void add(struct set *set, uint64_t key) {
    CHECK_INT(find(set, key), ==, HASH_INDEX_NONE);
    CHECK(hash_index_add(&set->index, hash_index_words(&set->index, key, 0), set->count));
    set->keys[set->count++] = key;
}

/* Slots that the average lookup of an entry goes past. Without collisions of whole hashes it is 1.5
 * in an index that is three quarters full, and less in others. */
static double average_distance(const struct hash_index *index) {
    return (double)hash_index_distance(index) / (index->count ? index->count : 1);
}

TEST(index_finds_every_entry_after_growing_and_nothing_else) {
    struct set set;
    set_init(&set, 100000);
    for (uint64_t i = 0; i < 100000; i++)
        add(&set, i * i);
    for (uint64_t i = 0; i < 100000; i++)
        CHECK_INT(find(&set, i * i), ==, i);
    CHECK_INT(find(&set, 3), ==, HASH_INDEX_NONE);
    CHECK_INT(set.index.count, ==, 100000);
    set_finish(&set);
}

TEST(index_offers_every_entry_of_one_hash_for_comparison) {
    struct set set;
    set_init(&set, 100);
    for (uint32_t i = 0; i < 100; i++) {
        set.keys[i] = i;
        CHECK(hash_index_add(&set.index, 7, i));
    }
    for (uint32_t i = 0; i < 100; i++)
        CHECK_INT(find_by_hash(&set, 7, i), ==, i);
    CHECK_INT(find_by_hash(&set, 7, 100), ==, HASH_INDEX_NONE);
    CHECK_INT(find_by_hash(&set, 8, 5), ==, HASH_INDEX_NONE);
    set_finish(&set);
}

TEST(index_wraps_around_its_last_slot) {
    struct set set;
    set_init(&set, 4);
    for (uint32_t i = 0; i < 4; i++) {
        set.keys[i] = i;
        CHECK(hash_index_add(&set.index, UINT32_MAX, i));
    }
    CHECK_INT(find_by_hash(&set, UINT32_MAX, 3), ==, 3);
    CHECK_INT(hash_index_distance(&set.index), ==, 0 + 1 + 2 + 3);
    set_finish(&set);
}

TEST(index_that_was_cleared_or_finished_is_empty_and_works_again) {
    struct set set;
    set_init(&set, 2000);
    CHECK_INT(find(&set, 1), ==, HASH_INDEX_NONE);
    for (int round = 0; round < 3; round++) {
        for (uint64_t i = 0; i < 1000; i++)
            add(&set, i << round);
        CHECK_INT(find(&set, 999u << round), ==, 999);
        size_t bytes = hash_index_bytes(&set.index);
        if (round == 0)
            hash_index_clear(&set.index);
        else
            hash_index_finish(&set.index);
        CHECK_INT(hash_index_bytes(&set.index), ==, round == 0 ? bytes : 0);
        set.count = 0;
        CHECK_INT(find(&set, 0), ==, HASH_INDEX_NONE);
    }
    set_finish(&set);
}

TEST(index_says_what_the_next_add_will_allocate) {
    struct hash_index index;
    hash_index_init(&index);
    for (uint32_t i = 0; i < 5000; i++) {
        size_t expected = hash_index_bytes(&index) + hash_index_growth(&index);
        CHECK(hash_index_add(&index, i * 0x9e3779b9u, i));
        CHECK_INT(hash_index_bytes(&index), ==, expected);
        CHECK_INT(index.count * sizeof(struct hash_slot), <=, expected / 4 * 3);
    }
    hash_index_finish(&index);
}

TEST(index_that_was_reserved_does_not_grow_up_to_that_count) {
    struct hash_index index;
    hash_index_init(&index);
    CHECK(hash_index_reserve(&index, 1000));
    size_t bytes = hash_index_bytes(&index);
    for (uint32_t i = 0; i < 1000; i++)
        CHECK(hash_index_add(&index, i, i));
    CHECK_INT(hash_index_bytes(&index), ==, bytes);
    CHECK(hash_index_reserve(&index, 10));
    CHECK_INT(hash_index_bytes(&index), ==, bytes);
    CHECK(!hash_index_reserve(&index, HASH_INDEX_MAX + 1));
    hash_index_finish(&index);
}

TEST(index_refuses_the_number_that_means_none) {
    struct hash_index index;
    hash_index_init(&index);
    CHECK(!hash_index_add(&index, 1, HASH_INDEX_NONE));
    CHECK(hash_index_add(&index, 1, HASH_INDEX_NONE - 1));
    struct hash_probe probe = hash_probe(1);
    CHECK_INT(hash_index_next(&index, &probe), ==, HASH_INDEX_NONE - 1);
    hash_index_finish(&index);
}

TEST(hash_depends_on_the_seed_both_words_the_length_and_every_byte) {
    struct hash_index one, other;
    unsigned char bytes[100] = {0};
    hash_index_init(&one);
    hash_index_init(&other);
    CHECK(hash_index_words(&one, 1, 2) != hash_index_words(&other, 1, 2));
    CHECK(hash_index_words(&one, 1, 2) != hash_index_words(&one, 2, 1));
    for (size_t len = 1; len <= sizeof bytes; len++) {
        uint32_t hash = hash_index_data(&one, bytes, len);
        CHECK(hash != hash_index_data(&other, bytes, len));
        CHECK(hash != hash_index_data(&one, bytes, len - 1));
        for (size_t i = 0; i < len; i++) {
            bytes[i] ^= 1u << (len % 8);
            CHECK(hash != hash_index_data(&one, bytes, len));
            bytes[i] ^= 1u << (len % 8);
        }
    }
}

/* Keys as our tables have them: dense numbers, addresses with steps, pairs of small numbers. A weak
 * mixer sends some of them to few slots, for some seeds. */
TEST(regular_keys_spread_over_the_slots_whatever_the_seed) {
    enum { COUNT = 20000, SEEDS = 20 };
    for (int round = 0; round < SEEDS; round++)
        for (int shape = 0; shape < 8; shape++) {
            struct hash_index index;
            hash_index_init(&index);
            for (uint64_t i = 0; i < COUNT; i++) {
                const uint64_t keys[8][2] = {
                    {i, 0},
                    {i << 4 | 0x7f0000000000, 0},
                    {i << 32, 0},
                    {i << 44, i},
                    {i % 141, i / 141},
                    {0x401000, i},
                    {i, i},
                    {i, ~i},
                };
                uint32_t hash = hash_index_words(&index, keys[shape][0], keys[shape][1]);
                CHECK(hash_index_add(&index, hash, (uint32_t)i));
            }
            CHECK_NEAR(average_distance(&index), 0, 3);
            hash_index_finish(&index);
        }
}

TEST(keys_that_shared_one_slot_of_earlier_tables_cost_no_more_than_others) {
    enum { COUNT = 60000 };
    const uint64_t node = 17ull << 32 | 3; /* parent and mapping, which the target knows */
    struct set set;
    set_init(&set, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t pc = colliding_word(node, i);
        CHECK_INT(colliding_mix(pc + colliding_mix(node)) & UINT32_MAX, ==, 0x1234);
        uint32_t hash = hash_index_words(&set.index, pc, node);
        CHECK_INT(find_by_hash(&set, hash, pc), ==, HASH_INDEX_NONE);
        CHECK(hash_index_add(&set.index, hash, set.count));
        set.keys[set.count++] = pc;
    }
    CHECK_NEAR(average_distance(&set.index), 0, 3);
    CHECK_INT(set.compared, <, 100); /* 0.4 pairs of equal hashes are expected */
    set_finish(&set);
}
