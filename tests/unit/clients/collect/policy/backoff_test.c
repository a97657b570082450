/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/policy/backoff.h"
#include "tests/unit/check.h"

#define TRIES 2000

TEST(backoff_pauses_are_between_half_and_the_whole_of_a_doubling_time) {
    static const uint32_t longest[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
    for (uint32_t n = 1; n <= sizeof longest / sizeof longest[0]; n++) {
        for (int i = 0; i < TRIES; i++) {
            uint32_t pause = backoff_ms(n, BACKOFF_MAX_MS);
            CHECK_INT(pause, >=, longest[n - 1] / 2);
            CHECK_INT(pause, <=, longest[n - 1]);
        }
    }
}

TEST(backoff_stays_at_a_minute_after_any_number_of_failures) {
    CHECK_INT(backoff_ms(40, BACKOFF_MAX_MS), <=, BACKOFF_MAX_MS);
    CHECK_INT(backoff_ms(UINT32_MAX, BACKOFF_MAX_MS), >=, BACKOFF_MAX_MS / 2);
    CHECK_INT(backoff_ms(UINT32_MAX, BACKOFF_MAX_MS), <=, BACKOFF_MAX_MS);
}

/* The mean of TRIES values that are uniform over 30 s has a standard deviation of 30
 * s / sqrt(12 * TRIES) = 194 ms; six of them are 1.2 s. */
TEST(backoff_pauses_are_spread_evenly) {
    double sum = 0;
    for (int i = 0; i < TRIES; i++)
        sum += backoff_ms(10, BACKOFF_MAX_MS);
    CHECK_NEAR(sum / TRIES, 45000, 1200);
}

TEST(backoff_and_first_calls_are_quick_in_a_small_fleet) {
    CHECK_INT(backoff_ms(UINT32_MAX, backoff_max_ms(2)), <=, 4100);
    CHECK_INT(backoff_ms(1, backoff_max_ms(2)), <=, 512);
    CHECK_INT(backoff_max_ms(5000), ==, 32000);
    CHECK_INT(backoff_max_ms(SIZE_MAX), ==, BACKOFF_MAX_MS);
    CHECK_INT(backoff_spread_ms(2), ==, 2);
    CHECK_INT(backoff_spread_ms(10000), ==, BACKOFF_SPREAD_MS);
    CHECK_INT(backoff_spread_ms(SIZE_MAX), ==, BACKOFF_SPREAD_MS);
}

TEST(backoff_jitter_is_below_its_span) {
    double sum = 0;
    for (int i = 0; i < TRIES; i++) {
        uint32_t jitter = backoff_jitter_ms(1000);
        CHECK_INT(jitter, <, 1000);
        sum += jitter;
    }
    CHECK_NEAR(sum / TRIES, 500, 40);
    CHECK_INT(backoff_jitter_ms(0), ==, 0);
}
