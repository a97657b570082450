/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

TEST(merge_with_a_copy_only_doubles_the_values) {
    struct sonde_profile *into = fixture("server"), *from = fixture("server");
    size_t samples = sonde_profile_sample_count(into), strings = sonde_profile_string_count(into);
    int64_t total = sonde_profile_total(into, 1);
    CHECK_INT(sonde_profile_merge(into, from, 1, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(into), ==, samples);
    CHECK_INT(sonde_profile_string_count(into), ==, strings);
    CHECK_INT(sonde_profile_location_count(into), ==, sonde_profile_location_count(from));
    CHECK_INT(sonde_profile_function_count(into), ==, sonde_profile_function_count(from));
    CHECK_INT(sonde_profile_mapping_count(into), ==, 3);
    CHECK_INT(sonde_profile_total(into, 1), ==, 2 * total);
    CHECK_INT(sonde_profile_info(into)->duration_ns, ==, 20000000000);
    CHECK_INT(sonde_profile_comment_count(into), ==, 2);
    sonde_profile_destroy(into);
    sonde_profile_destroy(from);
}

TEST(merge_with_scale_minus_1_subtracts) {
    struct sonde_profile *into = fixture("server"), *from = fixture("server");
    CHECK_INT(sonde_profile_merge(into, from, -1, NULL), ==, SONDE_OK);
    for (size_t i = 0; i < sonde_profile_sample_count(into); i++)
        CHECK_INT(sonde_profile_sample(into, i).values[0], ==, 0);
    CHECK_INT(sonde_profile_info(into)->duration_ns, ==, 10000000000);
    sonde_profile_destroy(into);
    sonde_profile_destroy(from);
}

TEST(merge_into_an_empty_profile_translates_every_id) {
    struct sonde_profile *into = fixture("empty"), *from = fixture("server");
    uint32_t id;
    CHECK_INT(sonde_profile_string(into, "something else first", 20, &id), ==, SONDE_OK);
    CHECK_INT(sonde_profile_merge(into, from, 1, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(into), ==, sonde_profile_sample_count(from));
    for (size_t i = 0; i < sonde_profile_sample_count(from); i++) {
        struct sonde_sample a = sonde_profile_sample(from, i), b = sonde_profile_sample(into, i);
        CHECK_INT(a.location_count, ==, b.location_count);
        CHECK_STR(sonde_sample_label(from, &a, "thread"), sonde_sample_label(into, &b, "thread"));
        for (uint32_t k = 0; k < a.location_count; k++) {
            const struct sonde_location *x = sonde_profile_location(from, a.locations[k]);
            const struct sonde_location *y = sonde_profile_location(into, b.locations[k]);
            CHECK_INT(x->address, ==, y->address);
            CHECK_INT(x->line_count, ==, y->line_count);
            for (uint32_t n = 0; n < x->line_count; n++)
                CHECK_STR(sonde_profile_text(
                              from, sonde_profile_function(from, x->lines[n].function)->name),
                          sonde_profile_text(
                              into, sonde_profile_function(into, y->lines[n].function)->name));
        }
    }
    sonde_profile_destroy(into);
    sonde_profile_destroy(from);
}

TEST(merge_refuses_other_types_and_itself) {
    struct sonde_profile *into = fixture("server"), *from = fixture("memory");
    struct sonde_diag diag = {0};
    CHECK_INT(sonde_profile_merge(into, from, 1, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "\"samples\" and \"inuse_space\"") != NULL);
    CHECK_INT(sonde_profile_merge(into, into, 1, &diag), ==, SONDE_INVALID_ARGUMENT);
    sonde_profile_destroy(into);
    sonde_profile_destroy(from);
}
