/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/table.h"
#include "tests/unit/check.h"

static bool equal(const void *context, const void *item, const void *key) {
    return *(const uint64_t *)item == *(const uint64_t *)key;
}

static uint32_t find(const struct profile_table *table, uint64_t key, uint32_t hash) {
    return profile_table_find(table, hash, equal, NULL, &key);
}

static uint32_t hash_of(const void *context, const void *item) {
    return hash_index_words(&((const struct profile_table *)context)->index,
                            *(const uint64_t *)item, 0);
}

TEST(table_finds_every_item_after_growing) {
    struct profile_table table;
    profile_table_init(&table, sizeof(uint64_t));
    for (uint64_t i = 0; i < 10000; i++)
        *(uint64_t *)profile_table_add(&table, hash_of(&table, &i)) = i;
    for (uint64_t i = 0; i < 10000; i++)
        CHECK_INT(find(&table, i, hash_of(&table, &i)), ==, i);
    uint64_t none = 10000;
    CHECK_INT(find(&table, none, hash_of(&table, &none)), ==, PROFILE_TABLE_NONE);
    profile_table_finish(&table);
}

TEST(table_distinguishes_items_with_equal_hashes) {
    struct profile_table table;
    profile_table_init(&table, sizeof(uint64_t));
    for (uint64_t i = 0; i < 100; i++)
        *(uint64_t *)profile_table_add(&table, 7) = i;
    for (uint64_t i = 0; i < 100; i++)
        CHECK_INT(find(&table, i, 7), ==, i);
    CHECK_INT(find(&table, 100, 7), ==, PROFILE_TABLE_NONE);
    profile_table_finish(&table);
}

TEST(table_finds_appended_items_once_they_are_indexed) {
    struct profile_table table;
    profile_table_init(&table, sizeof(uint64_t));
    CHECK(profile_table_expect(&table, 1000));
    for (uint64_t i = 0; i < 5000; i++) {
        uint32_t hash = hash_of(&table, &i);
        bool is_added = i % 3 == 0;
        if (is_added)
            CHECK(profile_table_index(&table, hash_of, &table));
        *(uint64_t *)(is_added ? profile_table_add(&table, hash) : profile_table_append(&table)) =
            i;
    }
    CHECK(profile_table_index(&table, hash_of, &table));
    for (uint64_t i = 0; i < 5000; i++)
        CHECK_INT(find(&table, i, hash_of(&table, &i)), ==, i);
    profile_table_finish(&table);
}

TEST(table_knows_what_the_next_add_will_allocate) {
    struct profile_table table;
    profile_table_init(&table, 40);
    for (int i = 0; i < 5000; i++) {
        size_t expected = profile_table_bytes(&table) + profile_table_growth(&table);
        profile_table_add(&table, (uint32_t)i);
        CHECK_INT(profile_table_bytes(&table), ==, expected);
    }
    profile_table_finish(&table);
}
