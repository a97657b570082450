/* SPDX-License-Identifier: Apache-2.0
 *
 * Compared with the tables of Abramowitz and Stegun (26.10 and 26.1). */
#include "api/profile/verdict/distribution.h"
#include "tests/unit/check.h"

#include <math.h>

TEST(quantiles_are_those_of_the_tables) {
    CHECK_NEAR(verdict_quantile(0.95, INFINITY), 1.959964, 1e-5);
    CHECK_NEAR(verdict_quantile(0.99, INFINITY), 2.575829, 1e-5);
    CHECK_NEAR(verdict_quantile(0.95, 1), 12.7062, 1e-4);
    CHECK_NEAR(verdict_quantile(0.95, 2), 4.30265, 1e-4);
    CHECK_NEAR(verdict_quantile(0.95, 7), 2.36462, 1e-4);
    CHECK_NEAR(verdict_quantile(0.95, 14), 2.14479, 1e-4);
    CHECK_NEAR(verdict_quantile(0.99, 120), 2.61742, 1e-4);
    CHECK_NEAR(verdict_quantile(0.999, 3), 12.9240, 1e-3);
}

TEST(tails_and_quantiles_are_inverse_and_symmetric) {
    static const double degrees[] = {0.7, 1, 2.5, 8, 40, 3000, 2e6, INFINITY};
    static const double confidences[] = {0.5, 0.8, 0.95, 0.9999};
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
        for (size_t k = 0; k < sizeof confidences / sizeof *confidences; k++) {
            double t = verdict_quantile(confidences[k], degrees[i]);
            CHECK_NEAR(verdict_tail(t, degrees[i]), 1 - confidences[k], 1e-9);
            CHECK_NEAR(verdict_tail(-t, degrees[i]), 1 - confidences[k], 1e-9);
        }
}

TEST(the_tail_is_1_at_0_and_0_far_away) {
    CHECK_NEAR(verdict_tail(0, 5), 1, 1e-12);
    CHECK_NEAR(verdict_tail(0, INFINITY), 1, 1e-12);
    CHECK_NEAR(verdict_tail(1e4, 9), 0, 1e-12);
    CHECK_NEAR(verdict_tail(1e4, INFINITY), 0, 1e-12);
}

TEST(many_degrees_of_freedom_approach_the_normal_distribution) {
    CHECK_NEAR(verdict_tail(2, 999999), verdict_tail(2, INFINITY), 1e-6);
}
