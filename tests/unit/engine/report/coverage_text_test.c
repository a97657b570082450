/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/report/report.h"
#include "tests/unit/check.h"

#include <string.h>

#define MS 1000000u

static pid_t pid = 4711;

static void check_coverage(uint64_t samples, uint64_t target_cpu_ms, const char *expected) {
    const struct report_input input = {.pid = pid,
                                       .metadata = {.event = SONDE_ON_CPU,
                                                    .samples = samples,
                                                    .period_ns = 10 * MS,
                                                    .target_cpu_ns = target_cpu_ms * MS}};
    struct sonde_profile *profile = report_empty(SONDE_ON_CPU);
    const char *found = "";
    CHECK(profile != NULL);
    CHECK_INT(report_add_comments(&input, profile), ==, SONDE_OK);
    for (size_t i = 0; i < sonde_profile_comment_count(profile); i++)
        if (strncmp(sonde_profile_comment(profile, i), "coverage: ", 10) == 0)
            found = sonde_profile_comment(profile, i) + 10;
    CHECK_STR(found, expected);
    sonde_profile_destroy(profile);
}

/* 95 % of counts of 400 are within 39 of it, of 10,000 within 196. */
TEST(a_share_that_chance_explains_is_not_shown_as_a_loss) {
    check_coverage(400, 4390,
                   "agrees with the CPU clock (4.000 s sampled of 4.390 s, ± 0.392 s by chance)");
    check_coverage(400, 3650,
                   "agrees with the CPU clock (4.000 s sampled of 3.650 s, ± 0.392 s by chance)");
    check_coverage(400, 5000, "80.0 % ± 7.8 (4.000 s sampled of 5.000 s on the CPU clock)");
    check_coverage(10000, 110000, "90.9 % ± 1.8 (100.000 s sampled of 110.000 s on the CPU clock)");
}

/* Idle targets had 160 %, and targets without samples 0 %. */
TEST(few_samples_agree_with_the_clock_unless_chance_cannot_explain_them) {
    check_coverage(8, 50,
                   "agrees with the CPU clock (0.080 s sampled of 0.050 s, ± 0.059 s by chance)");
    check_coverage(0, 20,
                   "agrees with the CPU clock (0.000 s sampled of 0.020 s, ± 0.019 s by chance)");
    check_coverage(99, 5000, "19.8 % ± 3.9 (0.990 s sampled of 5.000 s on the CPU clock)");
}

TEST(an_unknown_clock_has_no_share) {
    check_coverage(400, 0, "4.000 s sampled; the process's CPU clock is unknown");
    pid = 0;
    check_coverage(400, 0, "4.000 s sampled; not compared with a CPU clock, of several processes");
    pid = 4711;
}
