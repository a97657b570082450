/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/diff/diff.h"
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

/* A heap with stacks of one location, at the address 16 + i; bytes[i] 0 = no such stack. */
static struct sonde_profile *heap(int64_t period, const int64_t *bytes, size_t count) {
    const struct sonde_value_type types[] = {{"inuse_objects", "count"}, {"inuse_space", "bytes"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    const struct sonde_profile_info info = {.period_type = {"space", "bytes"},
                                            .period = period,
                                            .default_type = 1,
                                            .is_unbiased = true};
    sonde_profile_set_info(profile, &info);
    for (size_t i = 0; i < count; i++) {
        struct sonde_location location = {.address = 16 + i};
        uint32_t id;
        CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
        const int64_t values[] = {bytes[i] / 10, bytes[i]};
        struct sonde_sample sample = {
            .locations = &id, .location_count = 1, .values = values, .sampled = 1};
        if (bytes[i])
            CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    }
    return profile;
}

static int64_t value_at(const struct sonde_profile *profile, uint64_t address, size_t type_index) {
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        if (sonde_profile_location(profile, sample.locations[0])->address == address)
            return sample.values[type_index];
    }
    return 0;
}

static const int64_t before[] = {100, 400, 500, 0}, after[] = {300, 100, 500, 1100};

static struct sonde_profile *diff_of(const struct sonde_diff_options *options) {
    struct sonde_profile *base = heap(512, before, 4), *now = heap(512, after, 4), *diff;
    CHECK_INT(sonde_profile_diff(base, now, options, &diff, NULL), ==, SONDE_OK);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
    return diff;
}

TEST(diff_has_negative_values_and_no_unchanged_stacks) {
    struct sonde_profile *diff = diff_of(NULL);
    CHECK_INT(sonde_profile_sample_count(diff), ==, 3);
    CHECK_INT(value_at(diff, 16, 1), ==, 200);
    CHECK_INT(value_at(diff, 17, 1), ==, -300);
    CHECK_INT(value_at(diff, 17, 0), ==, -30);
    CHECK_INT(value_at(diff, 19, 1), ==, 1100);
    CHECK_INT(sonde_profile_total(diff, 1), ==, 1000);
    CHECK_INT(sonde_profile_sample(diff, 0).sampled, ==, 2); /* of both profiles together */
    sonde_profile_destroy(diff);
}

TEST(diff_with_growth_only_has_no_stack_that_shrank) {
    struct sonde_profile *diff = diff_of(&(struct sonde_diff_options){.growth_only = true});
    CHECK_INT(sonde_profile_sample_count(diff), ==, 2);
    CHECK_INT(sonde_profile_total(diff, 1), ==, 1300);
    CHECK_INT(sonde_profile_location_count(diff), ==, 2);
    sonde_profile_destroy(diff);
}

TEST(diff_normalised_compares_shares_of_the_total) {
    struct sonde_profile *diff = diff_of(&(struct sonde_diff_options){.normalise = true});
    CHECK_INT(value_at(diff, 16, 1), ==, 300 / 2 - 100);
    CHECK_INT(value_at(diff, 18, 1), ==, 500 / 2 - 500);
    CHECK_INT(sonde_profile_total(diff, 1), ==, 0);
    sonde_profile_destroy(diff);
}

TEST(diff_of_different_periods_is_refused_unless_both_are_unbiased) {
    struct sonde_profile *base = heap(512, before, 4), *now = heap(4096, after, 4), *diff;
    struct sonde_diag diag = {0};
    CHECK_INT(sonde_profile_diff(base, now, NULL, &diff, NULL), ==, SONDE_OK);
    sonde_profile_destroy(diff);
    struct sonde_profile_info info = *sonde_profile_info(base);
    info.is_unbiased = false;
    sonde_profile_set_info(base, &info);
    CHECK_INT(sonde_profile_diff(base, now, NULL, &diff, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(diff == NULL && strstr(diag.text, "512") && strstr(diag.text, "4096"));
    CHECK_INT(sonde_profile_compare(base, now, NULL, &diff, &diag), ==, SONDE_INVALID_ARGUMENT);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
}

/* At half the rate there are half the samples, each worth twice the time. */
TEST(compare_of_cpu_time_allows_different_rates) {
    struct sonde_profile *base = fixture("server"), *now = fixture("server"), *both;
    struct sonde_profile_info info = *sonde_profile_info(now);
    info.period *= 2;
    sonde_profile_set_info(now, &info);
    CHECK_INT(sonde_profile_compare(base, now, "samples", &both, NULL), ==, SONDE_INVALID_ARGUMENT);
    CHECK_INT(sonde_profile_compare(base, now, "cpu", &both, NULL), ==, SONDE_OK);
    sonde_profile_destroy(both);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
}

TEST(diff_of_different_sample_types_is_refused) {
    struct sonde_profile *cpu = fixture("server"), *now = heap(512, after, 4), *diff;
    struct sonde_diag diag = {0};
    CHECK_INT(sonde_profile_diff(cpu, now, NULL, &diff, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "different things: samples (count), ") != NULL);
    const struct sonde_value_type wall_types[] = {{"samples", "count"}, {"wall", "nanoseconds"}};
    struct sonde_profile *wall = sonde_profile_create(wall_types, 2, 0);
    sonde_profile_set_info(wall, &(struct sonde_profile_info){.period_type = wall_types[1]});
    CHECK_INT(sonde_profile_diff(cpu, wall, NULL, &diff, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "different events, \"cpu\" and \"wall\"") != NULL);
    sonde_profile_destroy(wall);
    struct sonde_profile_info info = *sonde_profile_info(now);
    struct sonde_profile *other = heap(512, before, 4);
    info.period_type.type = "allocations";
    sonde_profile_set_info(other, &info);
    CHECK_INT(sonde_profile_diff(other, now, NULL, &diff, &diag), ==, SONDE_INVALID_ARGUMENT);
    sonde_profile_destroy(other);
    sonde_profile_destroy(cpu);
    sonde_profile_destroy(now);
}

/* As Sonde's sampler makes it: the types of jemalloc, and those of all allocations before them. */
static struct sonde_profile *wider_heap(const int64_t *bytes) {
    const struct sonde_value_type types[] = {
        {"alloc_space", "bytes"}, {"inuse_space", "bytes"}, {"inuse_objects", "count"}};
    struct sonde_profile *profile = sonde_profile_create(types, 3, 0);
    const struct sonde_profile_info info = {
        .period_type = {"space", "bytes"}, .period = 512, .default_type = 1, .is_unbiased = true};
    struct sonde_location location = {.address = 16};
    uint32_t id;
    sonde_profile_set_info(profile, &info);
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
    struct sonde_sample sample = {.locations = &id, .location_count = 1, .values = bytes};
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    return profile;
}

TEST(diff_compares_the_sample_types_that_both_have) {
    struct sonde_profile *base = heap(512, before, 1), *diff;
    struct sonde_profile *now = wider_heap((const int64_t[]){9000, 700, 7});
    CHECK_INT(sonde_profile_diff(base, now, NULL, &diff, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_profile_type_count(diff), ==, 2);
    CHECK_STR(sonde_profile_type(diff, 0).type, "inuse_space");
    CHECK_INT(sonde_profile_info(diff)->default_type, ==, 0);
    CHECK_INT(value_at(diff, 16, 0), ==, 700 - 100);
    CHECK_INT(value_at(diff, 16, 1), ==, 7 - 10);
    CHECK_STR(sonde_profile_comment(diff, 0),
              "left out: sample types of one profile only: alloc_space (bytes)");
    sonde_profile_destroy(diff);
    CHECK_INT(sonde_profile_diff(now, base, NULL, &diff, NULL), ==, SONDE_OK);
    CHECK_INT(value_at(diff, 16, 1), ==, 100 - 700);
    sonde_profile_destroy(diff);
    CHECK_INT(sonde_profile_compare(base, now, "inuse_objects", &diff, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_profile_total(diff, 0), ==, 7);
    CHECK_INT(sonde_profile_total(diff, 1), ==, 10);
    sonde_profile_destroy(diff);
    struct sonde_diag diag = {0};
    CHECK_INT(sonde_profile_compare(base, now, "alloc_space", &diff, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "the profiles have no common sample type \"alloc_space\"");
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
}

TEST(diff_of_a_profile_with_itself_is_empty_and_draws) {
    struct sonde_profile *now = fixture("heap"), *diff;
    struct sonde_buf out = {0};
    CHECK_INT(sonde_profile_diff(now, now, NULL, &diff, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(diff), ==, 0);
    CHECK_INT(sonde_draw(diff, SONDE_FORMAT_LEGACY_HEAP, NULL, &out, NULL), ==, SONDE_OK);
    sonde_buf_finish(&out);
    sonde_profile_destroy(diff);
    sonde_profile_destroy(now);
}

TEST(compare_puts_both_values_side_by_side) {
    struct sonde_profile *base = heap(512, before, 4), *now = heap(512, after, 4), *both;
    struct sonde_diag diag = {0};
    CHECK_INT(sonde_profile_compare(base, now, "inuse_objects", &both, NULL), ==, SONDE_OK);
    CHECK_STR(sonde_profile_type(both, 0).type, "inuse_objects");
    CHECK_STR(sonde_profile_type(both, 1).type, "before");
    CHECK_STR(sonde_profile_type(both, 1).unit, "count");
    CHECK_INT(value_at(both, 16, 0), ==, 30);
    CHECK_INT(value_at(both, 16, 1), ==, 10);
    CHECK_INT(value_at(both, 18, 0), ==, 50); /* unchanged stacks stay */
    CHECK_INT(value_at(both, 19, 1), ==, 0);
    sonde_profile_destroy(both);
    CHECK_INT(sonde_profile_compare(base, now, NULL, &both, NULL), ==, SONDE_OK);
    CHECK_STR(sonde_profile_type(both, 0).type, "inuse_space");
    sonde_profile_destroy(both);
    CHECK_INT(sonde_profile_compare(base, now, "cpu", &both, &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "\"cpu\"") != NULL);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
}

TEST(diff_saturates) {
    const int64_t huge[] = {INT64_MAX}, negative[] = {INT64_MIN};
    struct sonde_profile *base = heap(512, negative, 1), *now = heap(512, huge, 1), *diff;
    CHECK_INT(sonde_profile_diff(base, now, NULL, &diff, NULL), ==, SONDE_OK);
    CHECK_INT(value_at(diff, 16, 1), ==, INT64_MAX);
    sonde_profile_destroy(diff);
    struct sonde_diff_options normalise = {.normalise = true};
    CHECK_INT(sonde_profile_diff(base, now, &normalise, &diff, NULL), ==, SONDE_OK);
    sonde_profile_destroy(diff);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
}
