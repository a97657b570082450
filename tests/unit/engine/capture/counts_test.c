/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/capture/counts.h"
#include "tests/unit/check.h"
#include "tests/unit/colliding_keys.h"

#define PERIOD_99  10101010ull
#define PERIOD_999 1001001ull

TEST(equal_keys_add_up_and_different_ones_stay_apart) {
    struct counts counts = {0};
    for (uint32_t i = 0; i < 10000; i++) {
        struct count_key key = {.stack = i % 100, .thread = i % 7, .request = i % 3};
        CHECK_INT(counts_add(&counts, &key, 2), ==, SONDE_OK);
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
        CHECK_INT(counts_add(&counts, &key, 1), ==, SONDE_OK);
    }
    key.stack = COUNTS_MAX;
    CHECK_INT(counts_add(&counts, &key, 1), ==, SONDE_TOO_LARGE);
    key.stack = 0;
    CHECK_INT(counts_add(&counts, &key, 1), ==, SONDE_OK);
    CHECK_INT(counts_add(&counts, &key, COUNTS_MAX_TOTAL), ==, SONDE_TOO_LARGE);
    CHECK_INT(counts.total, ==, COUNTS_MAX + 1);
    counts_finish(&counts);
}

TEST(a_table_full_of_request_numbers_drops_the_numbers_and_keeps_the_samples) {
    struct counts counts = {0};
    for (uint64_t i = 1; i <= 2 * COUNTS_MAX; i++) {
        struct count_key key = {.stack = (uint32_t)(i % 10), .request = i};
        CHECK_INT(counts_add(&counts, &key, 1), ==, SONDE_OK);
    }
    CHECK_INT(counts.total, ==, 2 * COUNTS_MAX);
    CHECK_INT(counts.used, ==, COUNTS_MAX_REQUESTS + 10);
    counts_finish(&counts);
}

TEST(ticks_at_the_captures_own_rate_count_one_each) {
    struct thinner thinner;
    thinner_init(&thinner, PERIOD_99, 1);
    for (uint32_t i = 0; i < 1000; i++)
        CHECK_INT(thinner_take(&thinner, 1 + i % 5, PERIOD_99), ==, 1);
    thinner_finish(&thinner);
}

TEST(a_slow_capture_of_a_fast_stream_counts_the_cpu_time_of_each_thread) {
    struct thinner thinner;
    thinner_init(&thinner, PERIOD_99, 2);
    uint64_t counted[4] = {0};
    for (uint32_t i = 0; i < 40000; i++)
        counted[i % 4] += thinner_take(&thinner, 1 + i % 4, PERIOD_999);
    for (int thread = 0; thread < 4; thread++)
        CHECK_NEAR((double)counted[thread] * PERIOD_99, 10000.0 * PERIOD_999, PERIOD_99);
    thinner_finish(&thinner);
}

TEST(overruns_and_dithered_periods_keep_the_sum) {
    struct thinner thinner;
    thinner_init(&thinner, PERIOD_99, 3);
    uint64_t counted = 0, weight = 0;
    for (uint64_t i = 0; i < 5000; i++) {
        uint64_t tick = PERIOD_999 * (1 + i % 30) + i * 37 % 100000;
        counted += thinner_take(&thinner, 5, tick);
        weight += tick;
    }
    CHECK_NEAR((double)counted * PERIOD_99, (double)weight, PERIOD_99);
    thinner_finish(&thinner);
}

/* Threads of 1 ms under a capture of 99 Hz: each is seen with the probability 0.099. */
TEST(threads_shorter_than_the_period_are_counted_in_proportion) {
    struct thinner thinner;
    uint64_t counted = 0;
    const uint32_t threads = 50000;
    thinner_init(&thinner, PERIOD_99, 4);
    for (uint32_t tid = 1; tid <= threads; tid++)
        counted += thinner_take(&thinner, tid, PERIOD_999);
    double expected = (double)threads * PERIOD_999 / PERIOD_99;
    CHECK_NEAR((double)counted, expected, expected * 0.08); /* 5 sigma */
    thinner_finish(&thinner);
}

TEST(threads_over_the_limit_are_drawn_by_lot_without_bias) {
    struct thinner thinner;
    uint64_t counted = 0;
    thinner_init(&thinner, PERIOD_99, 5);
    for (uint32_t tid = 1; tid <= 2 * THINNER_MAX; tid++)
        (void)thinner_take(&thinner, tid, PERIOD_999);
    CHECK_INT(thinner.used, ==, THINNER_MAX);
    const uint32_t takes = 50000;
    for (uint32_t i = 0; i < takes; i++)
        counted += thinner_take(&thinner, 10000000 + i, PERIOD_999);
    double expected = (double)takes * PERIOD_999 / PERIOD_99;
    CHECK_NEAR((double)counted, expected, expected * 0.08);
    thinner_finish(&thinner);
}

TEST(first_phases_differ_between_captures) {
    uint64_t seen = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct thinner thinner;
        thinner_init(&thinner, 100 * PERIOD_999, seed);
        seen += thinner_take(&thinner, 1, 50 * PERIOD_999);
        thinner_finish(&thinner);
    }
    CHECK_NEAR((double)seen, 500, 80); /* 5 sigma */
}

TEST(request_numbers_that_are_made_to_collide_cost_no_more_than_others) {
    enum { COUNT = 60000 };
    struct counts counts = {0};
    uint64_t rest = 7 + colliding_mix(1ull << 32 | 2); /* stack, thread, label */
    for (uint32_t i = 0; i < COUNT; i++) {
        struct count_key key = {.stack = 7, .thread = 1, .label = 2};
        key.request = colliding_word(rest, i);
        CHECK_INT(counts_add(&counts, &key, 1), ==, SONDE_OK);
    }
    CHECK_INT(counts.used, ==, COUNT);
    CHECK_INT(hash_index_distance(&counts.index), <, 3 * COUNT);
    counts_finish(&counts);
}

TEST(thread_ids_that_are_made_to_collide_cost_no_more_than_others) {
    struct thinner thinner;
    uint32_t added = 0;
    thinner_init(&thinner, PERIOD_99, 6);
    for (uint32_t tid = 1; added < 2048; tid++) {
        if ((colliding_mix(tid) & 4095) != 77) /* of the 4,096 slots that the earlier table had */
            continue;
        (void)thinner_take(&thinner, tid, PERIOD_999);
        added++;
    }
    CHECK_INT(thinner.used, ==, 2048);
    CHECK_INT(hash_index_distance(&thinner.index), <, 3 * 2048);
    thinner_finish(&thinner);
}
