/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/select/find_function.h"
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <stdio.h>
#include <stdlib.h>

/* The sum of the samples that have the function. */
static int64_t sum_of(const struct sonde_profile *profile, const char *pattern) {
    bool *is_on_stack = sonde_profile_find_function(profile, pattern);
    int64_t sum = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++)
        sum += is_on_stack[i] ? sonde_profile_sample(profile, i).values[1] : 0;
    free(is_on_stack);
    return sum;
}

TEST(a_function_is_found_anywhere_on_a_stack) {
    struct sonde_profile *profile = fixture("server");
    int64_t total = sonde_profile_total(profile, 1);
    CHECK_INT(sum_of(profile, "*"), >, 0);
    CHECK_INT(sum_of(profile, "*"), <=, total);
    CHECK_INT(sum_of(profile, "no such function"), ==, 0);
    CHECK_INT(sum_of(profile, ""), ==, 0);
    const struct sonde_function *function = sonde_profile_function(profile, 1);
    const char *name = sonde_profile_text(profile, function->name);
    CHECK_INT(sum_of(profile, name), >, 0);
    char pattern[300];
    snprintf(pattern, sizeof pattern, "%.1s*", name);
    CHECK_INT(sum_of(profile, pattern), >=, sum_of(profile, name));
    sonde_profile_destroy(profile);
}

TEST(an_inlined_function_is_found) {
    struct sonde_profile *profile = fixture("server");
    for (uint32_t id = 1; id <= sonde_profile_location_count(profile); id++) {
        const struct sonde_location *location = sonde_profile_location(profile, id);
        if (location->line_count < 2)
            continue;
        const struct sonde_function *function =
            sonde_profile_function(profile, location->lines[0].function);
        CHECK_INT(sum_of(profile, sonde_profile_text(profile, function->name)), >, 0);
        sonde_profile_destroy(profile);
        return;
    }
    check_fail(__FILE__, __LINE__, "the fixture has no inlined function");
}
