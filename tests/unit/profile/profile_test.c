/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/profile.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

static const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};

static struct sonde_profile *create(size_t limit) {
    struct sonde_profile *profile = sonde_profile_create(types, 2, limit);
    CHECK(profile != NULL);
    return profile;
}

static uint32_t text(struct sonde_profile *profile, const char *words) {
    uint32_t id;
    CHECK_INT(sonde_profile_string(profile, words, strlen(words), &id), ==, SONDE_OK);
    return id;
}

static uint32_t location(struct sonde_profile *profile, uint64_t address) {
    uint32_t id;
    struct sonde_location added = {.address = address};
    CHECK_INT(sonde_profile_add_location(profile, &added, &id), ==, SONDE_OK);
    return id;
}

TEST(a_new_profile_has_its_types_and_the_empty_string) {
    struct sonde_profile *profile = create(0);
    CHECK_INT(sonde_profile_type_count(profile), ==, 2);
    CHECK_STR(sonde_profile_type(profile, 1).type, "cpu");
    CHECK_STR(sonde_profile_type(profile, 1).unit, "nanoseconds");
    CHECK_STR(sonde_profile_type(profile, 2).type, "");
    CHECK_STR(sonde_profile_text(profile, 0), "");
    CHECK_STR(sonde_profile_text(profile, 12345), "");
    CHECK_STR(sonde_profile_info(profile)->period_type.type, "");
    CHECK_INT(sonde_profile_sample_count(profile), ==, 0);
    CHECK_INT(sonde_profile_total(profile, 0), ==, 0);
    sonde_profile_destroy(profile);
    sonde_profile_destroy(NULL);
}

TEST(profile_needs_a_type_and_has_a_limit) {
    struct sonde_value_type many[SONDE_PROFILE_MAX_TYPES + 1] = {{"a", "b"}};
    for (size_t i = 1; i <= SONDE_PROFILE_MAX_TYPES; i++)
        many[i] = many[0];
    CHECK(sonde_profile_create(many, 0, 0) == NULL);
    CHECK(sonde_profile_create(many, SONDE_PROFILE_MAX_TYPES + 1, 0) == NULL);
}

TEST(profile_equal_strings_have_one_id) {
    struct sonde_profile *profile = create(0);
    uint32_t first = text(profile, "main"), second = text(profile, "main");
    CHECK_INT(first, ==, second);
    CHECK(text(profile, "Main") != first);
    CHECK_INT(text(profile, ""), ==, 0);
    sonde_profile_destroy(profile);
}

TEST(profile_strings_are_stored_clean) {
    struct sonde_profile *profile = create(0);
    uint32_t id;
    CHECK_INT(sonde_profile_string(profile, "a\xff\nb\0c", 6, &id), ==, SONDE_OK);
    CHECK_STR(sonde_profile_text(profile, id), "a\\xff b c");
    CHECK_INT(text(profile, "a\\xff b c"), ==, id);
    sonde_profile_destroy(profile);
}

TEST(profile_equal_items_have_one_id_from_1) {
    struct sonde_profile *profile = create(0);
    struct sonde_mapping mapping = {.start = 1, .limit = 2, .filename = text(profile, "/bin/x")};
    struct sonde_function function = {.name = text(profile, "f")};
    uint32_t a, b;
    CHECK_INT(sonde_profile_add_mapping(profile, &mapping, &a), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_mapping(profile, &mapping, &b), ==, SONDE_OK);
    CHECK(a == 1 && b == 1);
    mapping.offset = 4096;
    CHECK_INT(sonde_profile_add_mapping(profile, &mapping, &b), ==, SONDE_OK);
    CHECK_INT(b, ==, 2);
    CHECK_INT(sonde_profile_add_function(profile, &function, &a), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_function(profile, &function, &b), ==, SONDE_OK);
    CHECK(a == 1 && b == 1);
    CHECK(sonde_profile_function(profile, 0) == NULL);
    CHECK(sonde_profile_function(profile, 2) == NULL);
    sonde_profile_destroy(profile);
}

TEST(profile_locations_differ_by_lines_address_and_kind) {
    struct sonde_profile *profile = create(0);
    struct sonde_function function = {.name = text(profile, "f")};
    struct sonde_line lines[2] = {{0, 5}, {0, 6}};
    uint32_t id, seen[4];
    CHECK_INT(sonde_profile_add_function(profile, &function, &lines[0].function), ==, SONDE_OK);
    lines[1].function = lines[0].function;
    struct sonde_location locations[4] = {
        {.address = 1, .line_count = 1, .lines = lines},
        {.address = 1, .line_count = 2, .lines = lines},
        {.address = 1, .line_count = 1, .lines = lines + 1},
        {.address = 1, .line_count = 1, .lines = lines, .kind = SONDE_FRAME_KERNEL}};
    for (int i = 0; i < 4; i++)
        CHECK_INT(sonde_profile_add_location(profile, &locations[i], &seen[i]), ==, SONDE_OK);
    CHECK_INT(sonde_profile_location_count(profile), ==, 4);
    CHECK_INT(sonde_profile_add_location(profile, &locations[1], &id), ==, SONDE_OK);
    CHECK_INT(id, ==, seen[1]);
    lines[0].line = 99; /* the profile has its own copy */
    CHECK_INT(sonde_profile_location(profile, seen[0])->lines[0].line, ==, 5);
    sonde_profile_destroy(profile);
}

TEST(profile_equal_samples_are_merged_in_any_order_of_labels) {
    struct sonde_profile *profile = create(0);
    uint32_t stack[] = {location(profile, 1), location(profile, 2)};
    struct sonde_label labels[] = {{text(profile, "thread"), text(profile, "io"), 0, 0},
                                   {text(profile, "tid"), 0, 7, 0}};
    struct sonde_label turned[] = {labels[1], labels[0]};
    int64_t values[] = {2, 20}, more[] = {3, 30};
    struct sonde_sample sample = {.locations = stack,
                                  .location_count = 2,
                                  .label_count = 2,
                                  .values = values,
                                  .labels = labels},
                        again = {.locations = stack,
                                 .location_count = 2,
                                 .label_count = 2,
                                 .values = more,
                                 .labels = turned};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_sample(profile, &again), ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(profile), ==, 1);
    CHECK_INT(sonde_profile_total(profile, 0), ==, 5);
    CHECK_INT(sonde_profile_total(profile, 1), ==, 50);
    struct sonde_sample stored = sonde_profile_sample(profile, 0);
    CHECK_STR(sonde_sample_label(profile, &stored, "thread"), "io");
    CHECK_STR(sonde_sample_label(profile, &stored, "tid"),
              ""); /* a numeric label is not a string */
    CHECK_INT(stored.locations[1], ==, stack[1]);
    turned[0].num = 8;
    CHECK_INT(sonde_profile_add_sample(profile, &again), ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(profile), ==, 2);
    sonde_profile_destroy(profile);
}

TEST(profile_appended_samples_are_merged_with_equal_ones) {
    struct sonde_profile *profile = create(0);
    uint32_t *stacks = calloc(600, sizeof *stacks);
    CHECK_INT(sonde_profile_expect_samples(profile, 300), ==, SONDE_OK);
    CHECK_INT(sonde_profile_adopt(profile, stacks, 600 * sizeof *stacks), ==, SONDE_OK);
    for (uint32_t i = 0; i < 300; i++) {
        uint32_t *stack = stacks + 2 * i;
        stack[0] = location(profile, 100 + i);
        stack[1] = location(profile, 1);
        const int64_t values[] = {1, i};
        struct sonde_sample sample = {.locations = stack, .location_count = 2, .values = values};
        CHECK_INT(sonde_profile_append_sample(profile, &sample), ==, SONDE_OK);
        if (i % 50 == 49)
            CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    }
    CHECK_INT(sonde_profile_sample_count(profile), ==, 300);
    CHECK_INT(sonde_profile_total(profile, 0), ==, 306);
    CHECK_INT(sonde_profile_sample(profile, 149).values[1], ==, 298);
    CHECK_INT(sonde_profile_sample(profile, 150).values[1], ==, 150);
    CHECK(sonde_profile_sample(profile, 150).locations == stacks + 300); /* not copied */
    sonde_profile_destroy(profile);
}

TEST(profile_refuses_to_append_what_it_refuses_to_add) {
    struct sonde_profile *profile = create(1 << 16);
    const int64_t values[] = {1, 1};
    uint32_t none = 0, far = 7;
    struct sonde_sample sample = {.locations = &none, .location_count = 1, .values = values};
    CHECK_INT(sonde_profile_append_sample(profile, &sample), ==, SONDE_INVALID_ARGUMENT);
    sample.locations = &far;
    CHECK_INT(sonde_profile_append_sample(profile, &sample), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(sonde_profile_expect_samples(profile, 1 << 20), ==, SONDE_TOO_LARGE);
    sample.location_count = 0;
    sonde_err err = SONDE_OK;
    for (int i = 0; i < 100000 && !err; i++)
        err = sonde_profile_append_sample(profile, &sample);
    CHECK_INT(err, ==, SONDE_TOO_LARGE);
    CHECK_INT(sonde_profile_total(profile, 0), ==, sonde_profile_sample_count(profile));
    sonde_profile_destroy(profile);
}

TEST(profile_does_not_adopt_memory_beyond_its_limit) {
    struct sonde_profile *profile = create(1 << 16);
    void *memory = calloc(1, 1 << 15), *more = calloc(1, 1 << 15);
    CHECK_INT(sonde_profile_adopt(profile, memory, 1 << 15), ==, SONDE_OK);
    CHECK_INT(sonde_profile_adopt(profile, more, 1 << 15), ==, SONDE_TOO_LARGE);
    free(more);
    sonde_profile_destroy(profile);
}

TEST(profile_sums_saturate) {
    struct sonde_profile *profile = create(0);
    int64_t values[] = {INT64_MAX, INT64_MIN};
    struct sonde_sample sample = {.values = values};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    CHECK_INT(sonde_profile_total(profile, 0), ==, INT64_MAX);
    CHECK_INT(sonde_profile_total(profile, 1), ==, INT64_MIN);
    sonde_profile_destroy(profile);
}

TEST(profile_refuses_ids_that_do_not_exist) {
    struct sonde_profile *profile = create(0);
    uint32_t id, stack[] = {1};
    int64_t values[2] = {1, 1};
    struct sonde_line line = {.function = 1};
    struct sonde_label label = {.key = 999};
    CHECK_INT(sonde_profile_add_mapping(profile, &(struct sonde_mapping){.filename = 99}, &id), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_INT(sonde_profile_add_function(profile, &(struct sonde_function){.name = 99}, &id), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_INT(sonde_profile_add_location(profile, &(struct sonde_location){.mapping = 1}, &id), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_INT(sonde_profile_add_location(
                  profile, &(struct sonde_location){.line_count = 1, .lines = &line}, &id),
              ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(sonde_profile_add_sample(profile, &(struct sonde_sample){.locations = stack,
                                                                       .location_count = 1,
                                                                       .label_count = 0,
                                                                       .values = values,
                                                                       .labels = NULL}),
              ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(sonde_profile_add_sample(profile, &(struct sonde_sample){.locations = stack,
                                                                       .location_count = 0,
                                                                       .label_count = 1,
                                                                       .values = values,
                                                                       .labels = &label}),
              ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(sonde_profile_sample_count(profile), ==, 0);
    sonde_profile_destroy(profile);
}

TEST(profile_refuses_too_deep_stacks_and_too_many_labels) {
    static uint32_t stack[SONDE_PROFILE_MAX_DEPTH + 1];
    struct sonde_label labels[SONDE_PROFILE_MAX_LABELS + 1] = {{0}};
    struct sonde_profile *profile = create(0);
    int64_t values[2] = {1, 1};
    for (int i = 0; i <= SONDE_PROFILE_MAX_DEPTH; i++)
        stack[i] = location(profile, 1);
    struct sonde_sample deep = {.locations = stack,
                                .location_count = SONDE_PROFILE_MAX_DEPTH + 1,
                                .label_count = 0,
                                .values = values,
                                .labels = NULL};
    struct sonde_sample labelled = {.locations = stack,
                                    .location_count = 1,
                                    .label_count = SONDE_PROFILE_MAX_LABELS + 1,
                                    .values = values,
                                    .labels = labels};
    CHECK_INT(sonde_profile_add_sample(profile, &deep), ==, SONDE_TOO_LARGE);
    CHECK_INT(sonde_profile_add_sample(profile, &labelled), ==, SONDE_TOO_LARGE);
    deep.location_count--;
    CHECK_INT(sonde_profile_add_sample(profile, &deep), ==, SONDE_OK);
    sonde_profile_destroy(profile);
}

TEST(profile_at_its_limit_refuses_and_stays_valid) {
    struct sonde_profile *profile = create(64 << 10);
    char name[64];
    sonde_err err = SONDE_OK;
    uint32_t id, kept = 0;
    for (int i = 0; i < 100000 && !err; i++) {
        snprintf(name, sizeof name, "function_%d", i);
        err = sonde_profile_string(profile, name, strlen(name), &id);
        kept += !err;
    }
    CHECK_INT(err, ==, SONDE_TOO_LARGE);
    CHECK_INT(kept, >, 500);
    CHECK_INT(sonde_profile_string(profile, "function_7", 10, &id), ==, SONDE_OK);
    CHECK_STR(sonde_profile_text(profile, id), "function_7");
    sonde_profile_destroy(profile);
}

TEST(profile_comments_stay_in_order_even_equal_ones) {
    struct sonde_profile *profile = create(0);
    CHECK_INT(sonde_profile_add_comment(profile, "clock: perf"), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_comment(profile, "dropped: 0"), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_comment(profile, "clock: perf"), ==, SONDE_OK);
    CHECK_INT(sonde_profile_comment_count(profile), ==, 3);
    CHECK_STR(sonde_profile_comment(profile, 2), "clock: perf");
    CHECK_STR(sonde_profile_comment(profile, 3), "");
    sonde_profile_destroy(profile);
}

TEST(profile_info_is_copied) {
    struct sonde_profile *profile = create(0);
    char type[] = "cpu";
    struct sonde_profile_info info = {.period_type = {type, "nanoseconds"},
                                      .period = 10101010,
                                      .time_unix_ns = 5,
                                      .duration_ns = 6,
                                      .default_type = 9};
    sonde_profile_set_info(profile, &info);
    type[0] = 'x';
    CHECK_STR(sonde_profile_info(profile)->period_type.type, "cpu");
    CHECK_INT(sonde_profile_info(profile)->period, ==, 10101010);
    CHECK_INT(sonde_profile_info(profile)->default_type, ==, 0); /* there is no type 9 */
    sonde_profile_destroy(profile);
}
