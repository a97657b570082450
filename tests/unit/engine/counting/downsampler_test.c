/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/counting/downsampler.h"
#include "tests/unit/check.h"
#include "tests/unit/colliding_keys.h"

#define PERIOD_99  10101010ull
#define PERIOD_999 1001001ull

TEST(ticks_at_the_captures_own_rate_count_one_each) {
    struct downsampler downsampler;
    downsampler_init(&downsampler, PERIOD_99, 1);
    for (uint32_t i = 0; i < 1000; i++)
        CHECK_INT(downsampler_take(&downsampler, 1 + i % 5, PERIOD_99), ==, 1);
    downsampler_finish(&downsampler);
}

TEST(a_slow_capture_of_a_fast_stream_counts_the_cpu_time_of_each_thread) {
    struct downsampler downsampler;
    downsampler_init(&downsampler, PERIOD_99, 2);
    uint64_t counted[4] = {0};
    for (uint32_t i = 0; i < 40000; i++)
        counted[i % 4] += downsampler_take(&downsampler, 1 + i % 4, PERIOD_999);
    for (int thread = 0; thread < 4; thread++)
        CHECK_NEAR((double)counted[thread] * PERIOD_99, 10000.0 * PERIOD_999, PERIOD_99);
    downsampler_finish(&downsampler);
}

TEST(overruns_and_dithered_periods_keep_the_sum) {
    struct downsampler downsampler;
    downsampler_init(&downsampler, PERIOD_99, 3);
    uint64_t counted = 0, weight = 0;
    for (uint64_t i = 0; i < 5000; i++) {
        uint64_t tick = PERIOD_999 * (1 + i % 30) + i * 37 % 100000;
        counted += downsampler_take(&downsampler, 5, tick);
        weight += tick;
    }
    CHECK_NEAR((double)counted * PERIOD_99, (double)weight, PERIOD_99);
    downsampler_finish(&downsampler);
}

/* Threads of 1 ms in a capture at 99 Hz: each is counted with probability 0.099. */
TEST(threads_shorter_than_the_period_are_counted_in_proportion) {
    struct downsampler downsampler;
    uint64_t counted = 0;
    const uint32_t threads = 50000;
    downsampler_init(&downsampler, PERIOD_99, 4);
    for (uint32_t tid = 1; tid <= threads; tid++)
        counted += downsampler_take(&downsampler, tid, PERIOD_999);
    double expected = (double)threads * PERIOD_999 / PERIOD_99;
    CHECK_NEAR((double)counted, expected, expected * 0.08); /* 5 sigma */
    downsampler_finish(&downsampler);
}

TEST(threads_over_the_limit_are_drawn_by_lot_without_bias) {
    struct downsampler downsampler;
    uint64_t counted = 0;
    downsampler_init(&downsampler, PERIOD_99, 5);
    for (uint32_t tid = 1; tid <= 2 * DOWNSAMPLER_MAX; tid++)
        (void)downsampler_take(&downsampler, tid, PERIOD_999);
    CHECK_INT(downsampler.used, ==, DOWNSAMPLER_MAX);
    const uint32_t takes = 50000;
    for (uint32_t i = 0; i < takes; i++)
        counted += downsampler_take(&downsampler, 10000000 + i, PERIOD_999);
    double expected = (double)takes * PERIOD_999 / PERIOD_99;
    CHECK_NEAR((double)counted, expected, expected * 0.08);
    downsampler_finish(&downsampler);
}

TEST(first_phases_differ_between_captures) {
    uint64_t seen = 0;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct downsampler downsampler;
        downsampler_init(&downsampler, 100 * PERIOD_999, seed);
        seen += downsampler_take(&downsampler, 1, 50 * PERIOD_999);
        downsampler_finish(&downsampler);
    }
    CHECK_NEAR((double)seen, 500, 80); /* 5 sigma */
}

TEST(thread_ids_that_are_made_to_collide_cost_no_more_than_others) {
    struct downsampler downsampler;
    uint32_t added = 0;
    downsampler_init(&downsampler, PERIOD_99, 6);
    for (uint32_t tid = 1; added < 2048; tid++) {
        if ((colliding_mix(tid) & 4095) != 77) /* of the 4,096 slots that the earlier table had */
            continue;
        (void)downsampler_take(&downsampler, tid, PERIOD_999);
        added++;
    }
    CHECK_INT(downsampler.used, ==, 2048);
    CHECK_INT(hash_index_distance(&downsampler.index), <, 3 * 2048);
    downsampler_finish(&downsampler);
}
