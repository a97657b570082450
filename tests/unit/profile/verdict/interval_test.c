/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/verdict/interval.h"
#include "tests/unit/check.h"

#include <math.h>

/* Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29. */
TEST(intervals_of_shares_are_those_of_newcombes_table) {
    static const struct {
        double part, whole, low, high;
    } rows[] = {{81, 263, 0.2553, 0.3662},
                {15, 148, 0.0624, 0.1605},
                {0, 20, 0.0000, 0.1611},
                {1, 29, 0.0061, 0.1718}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct verdict_limits limits =
            verdict_wilson(rows[i].part / rows[i].whole, rows[i].whole, VERDICT_Q95);
        CHECK_NEAR(limits.low, rows[i].low, 5e-5);
        CHECK_NEAR(limits.high, rows[i].high, 5e-5);
    }
    CHECK_NEAR(verdict_half_width(verdict_wilson(0.3, INFINITY, VERDICT_Q95)), 0, 0);
}

/* The limits are the means whose distance to the count is q of their standard deviations. */
TEST(counts_are_q_deviations_from_their_limits) {
    static const double counts[] = {0, 1, 9, 400, 1e6};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct verdict_limits limits = verdict_poisson(counts[i], VERDICT_Q95);
        CHECK_NEAR(limits.high - counts[i], VERDICT_Q95 * sqrt(limits.high), 1e-6);
        CHECK_NEAR(counts[i] - limits.low, VERDICT_Q95 * sqrt(limits.low), 1e-6);
    }
}
