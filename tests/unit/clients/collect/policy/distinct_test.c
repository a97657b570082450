/* SPDX-License-Identifier: Apache-2.0 */
#include "api/hash_index.h"
#include "clients/collect/policy/distinct.h"
#include "tests/unit/check.h"

static uint32_t count_of(uint32_t keys, int repeats) {
    struct hash_index seed;
    struct distinct distinct = {0};
    hash_index_init(&seed);
    for (int i = 0; i < repeats; i++)
        for (uint32_t key = 0; key < keys; key++)
            distinct_add(&distinct, hash_index_words(&seed, key, 0));
    return distinct_count(&distinct);
}

TEST(distinct_count_is_exact_below_its_size) {
    CHECK_INT(count_of(0, 1), ==, 0);
    CHECK_INT(count_of(1, 5), ==, 1);
    CHECK_INT(count_of(100, 3), ==, 100);
    CHECK_INT(count_of(DISTINCT_EXACT - 1, 3), ==, DISTINCT_EXACT - 1);
}

/* Six times the relative error of 9 %. */
TEST(distinct_count_estimates_above_it) {
    CHECK_NEAR(count_of(1000, 2), 1000, 540);
    CHECK_NEAR(count_of(200000, 2), 200000, 108000);
}
