/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/counting/counts.h"
#include "tests/unit/check.h"
#include "tests/unit/colliding_keys.h"

TEST(equal_keys_add_up_and_different_ones_stay_apart) {
    struct counts counts = {0};
    for (uint32_t i = 0; i < 10000; i++) {
        struct count_key key = {.stack = i % 100, .thread = i % 7, .request = i % 3};
        CHECK_INT(counts_add(&counts, &key, 2, 0), ==, SONDE_OK);
    }
    CHECK_INT(counts.total, ==, 20000);
    CHECK_INT(counts.used, ==, 100 * 7 * 3);
    counts_finish(&counts);
}

TEST(a_full_table_refuses_new_keys_and_still_counts_old_ones) {
    struct counts counts = {0};
    struct count_key key = {.stack = 1};
    for (uint32_t i = 0; i < COUNTS_MAX; i++) {
        key.stack = i;
        CHECK_INT(counts_add(&counts, &key, 1, 0), ==, SONDE_OK);
    }
    key.stack = COUNTS_MAX;
    CHECK_INT(counts_add(&counts, &key, 1, 0), ==, SONDE_TOO_LARGE);
    key.stack = 0;
    CHECK_INT(counts_add(&counts, &key, 1, 0), ==, SONDE_OK);
    uint64_t left = COUNTS_MAX_TOTAL - counts.total;
    CHECK_INT(counts_add(&counts, &key, left + 1, 0), ==, SONDE_TOO_LARGE);
    CHECK_INT(counts.total, ==, COUNTS_MAX + 1);
    CHECK_INT(counts_add(&counts, &key, left, 0), ==, SONDE_OK);
    CHECK_INT(counts.total, ==, COUNTS_MAX_TOTAL);
    CHECK_INT(counts_add(&counts, &key, 1, 0), ==, SONDE_TOO_LARGE);
    counts_finish(&counts);
}

TEST(a_table_full_of_request_numbers_drops_the_numbers_and_keeps_the_samples) {
    struct counts counts = {0};
    for (uint64_t i = 1; i <= 2 * COUNTS_MAX; i++) {
        struct count_key key = {.stack = (uint32_t)(i % 10), .request = i};
        CHECK_INT(counts_add(&counts, &key, 1, 0), ==, SONDE_OK);
    }
    CHECK_INT(counts.total, ==, 2 * COUNTS_MAX);
    CHECK_INT(counts.used, ==, COUNTS_MAX_REQUESTS + 10);
    counts_finish(&counts);
}

TEST(request_numbers_that_are_made_to_collide_cost_no_more_than_others) {
    enum { COUNT = 60000 };
    struct counts counts = {0};
    uint64_t rest = 7 + colliding_mix(1ull << 32 | 2); /* stack, thread, label */
    for (uint32_t i = 0; i < COUNT; i++) {
        struct count_key key = {.stack = 7, .thread = 1, .label = 2};
        key.request = colliding_word(rest, i);
        CHECK_INT(counts_add(&counts, &key, 1, 0), ==, SONDE_OK);
    }
    CHECK_INT(counts.used, ==, COUNT);
    CHECK_INT(hash_index_distance(&counts.index), <, 3 * COUNT);
    counts_finish(&counts);
}

TEST(waits_count_with_and_without_samples) {
    struct counts counts = {0};
    const struct count_key short_one = {.stack = 1}, long_one = {.stack = 2};
    CHECK_INT(counts_add(&counts, &short_one, 0, 0), ==, SONDE_OK);
    CHECK_INT(counts.used, ==, 0);
    CHECK_INT(counts_add(&counts, &short_one, 0, 1), ==, SONDE_OK);
    CHECK_INT(counts_add(&counts, &long_one, 40, 1), ==, SONDE_OK);
    CHECK_INT(counts_add(&counts, &long_one, 40, 0), ==, SONDE_OK); /* its rest */
    CHECK_INT(counts_add(&counts, &short_one, 1, 2.5), ==, SONDE_OK);
    CHECK_INT(counts.used, ==, 2);
    CHECK_INT(counts.total, ==, 81);
    CHECK(counts.entries[0].count == 1 && counts.entries[0].waits == 3.5);
    CHECK(counts.entries[1].count == 80 && counts.entries[1].waits == 1);
    counts_finish(&counts);
}
