/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/diff/diff.h"
#include "api/profile/pprof/pprof.h"
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <stdio.h>
#include <string.h>

/* Adds the samples of `from` times scale, with the label if key is not NULL. */
static void add(struct sonde_profile *into, const struct sonde_profile *from, const char *key,
                int64_t scale) {
    struct sonde_profile *marked = sonde_profile_create(
        (const struct sonde_value_type[]){sonde_profile_type(from, 0), sonde_profile_type(from, 1)},
        2, 0);
    for (size_t i = 0; i < sonde_profile_sample_count(from); i++) {
        struct sonde_sample sample = sonde_profile_sample(from, i);
        struct sonde_label labels[2] = {{0}};
        int64_t values[] = {sample.values[0] * scale, sample.values[1] * scale};
        uint32_t location, function;
        struct sonde_function named = {0};
        struct sonde_line line = {0};
        char name[20];
        snprintf(name, sizeof name, "f%zu", i);
        CHECK_INT(sonde_profile_string(marked, name, strlen(name), &named.name), ==, 0);
        CHECK_INT(sonde_profile_add_function(marked, &named, &function), ==, 0);
        line.function = function;
        struct sonde_location place = {.line_count = 1, .lines = &line, .address = i + 1};
        CHECK_INT(sonde_profile_add_location(marked, &place, &location), ==, 0);
        CHECK_INT(sonde_profile_string(marked, "thread", 6, &labels[0].key), ==, 0);
        CHECK_INT(sonde_profile_string(marked, "io", 2, &labels[0].str), ==, 0);
        if (key) {
            CHECK_INT(sonde_profile_string(marked, key, strlen(key), &labels[1].key), ==, 0);
            CHECK_INT(sonde_profile_string(marked, "true", 4, &labels[1].str), ==, 0);
        }
        struct sonde_sample copy = {.locations = &location,
                                    .location_count = 1,
                                    .label_count = key ? 2 : 1,
                                    .labels = labels,
                                    .values = values};
        CHECK_INT(sonde_profile_add_sample(marked, &copy), ==, 0);
    }
    CHECK_INT(sonde_profile_merge(into, marked, 1, NULL), ==, SONDE_OK);
    sonde_profile_destroy(marked);
}

static struct sonde_profile *create(void) {
    static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    return sonde_profile_create(types, 2, 0);
}

static void check_split(int64_t scale) {
    struct sonde_profile *server = fixture("server"), *both = create(), *base, *now;
    add(both, server, NULL, 3);
    add(both, server, "pprof::base", scale);
    CHECK_INT(sonde_profile_split_base(both, &base, &now), ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(base), ==, sonde_profile_sample_count(server));
    CHECK_INT(sonde_profile_sample_count(now), ==, sonde_profile_sample_count(server));
    for (size_t type = 0; type < 2; type++) {
        CHECK_INT(sonde_profile_total(base, type), ==, sonde_profile_total(server, type));
        CHECK_INT(sonde_profile_total(now, type), ==, 3 * sonde_profile_total(server, type));
    }
    struct sonde_sample sample = sonde_profile_sample(base, 0);
    CHECK_INT(sample.label_count, ==, 1);
    CHECK_STR(sonde_sample_label(base, &sample, "thread"), "io");
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
    sonde_profile_destroy(both);
    sonde_profile_destroy(server);
}

TEST(a_base_is_split_off_without_its_label) {
    check_split(1);
}

TEST(the_negative_values_that_go_tool_pprof_writes_are_made_positive) {
    check_split(-1);
}

TEST(a_profile_without_the_label_has_no_base) {
    struct sonde_profile *server = fixture("server"), *other = create(), *base, *now;
    CHECK_INT(sonde_profile_split_base(server, &base, &now), ==, SONDE_OK);
    CHECK(!base && !now);
    add(other, server, "pprof::other", 1);
    CHECK_INT(sonde_profile_split_base(other, &base, &now), ==, SONDE_OK);
    CHECK(!base && !now);
    sonde_profile_destroy(other);
    sonde_profile_destroy(server);
}

TEST(a_profile_of_only_a_base_has_nothing_now) {
    struct sonde_profile *server = fixture("server"), *other = create(), *base, *now;
    add(other, server, "pprof::base", -1);
    CHECK_INT(sonde_profile_split_base(other, &base, &now), ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(now), ==, 0);
    CHECK_INT(sonde_profile_total(base, 1), ==, sonde_profile_total(server, 1));
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
    sonde_profile_destroy(other);
    sonde_profile_destroy(server);
}
