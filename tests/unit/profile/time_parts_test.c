/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/compare/comparison.h"
#include "api/profile/diff/join.h"
#include "api/profile/diff/time_parts.h"
#include "tests/unit/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BINS_PER_SECOND (1000 / SONDE_TIMELINE_BIN_MS)
#define SAMPLE_NS       1000000
#define SEED            20261128u

static const char *const names[] = {"hash", "parse", "write"};

static uint32_t add_location(struct sonde_profile *profile, const char *name) {
    struct sonde_function function = {0};
    struct sonde_line line = {0};
    struct sonde_location location = {.line_count = 1, .lines = &line};
    uint32_t id;
    CHECK_INT(sonde_profile_string(profile, name, strlen(name), &function.name), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_function(profile, &function, &line.function), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
    return id;
}

static uint32_t random_below(uint32_t *state, uint32_t limit) {
    *state = *state * 1664525u + 1013904223u;
    return (uint32_t)(((uint64_t)*state * limit) >> 32);
}

/* A capture of some seconds: 200 samples in each, of which hash has its number in that second and
 * the others share the rest by chance. */
static struct sonde_profile *capture(uint32_t seconds, const uint32_t *of_hash, uint32_t seed) {
    const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    struct sonde_timeline *timeline = calloc(1, sizeof *timeline);
    timeline->entries = calloc(seconds * 200, sizeof *timeline->entries);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t id = add_location(profile, names[i]), index;
        int64_t values[] = {0, 0};
        struct sonde_sample sample = {.locations = &id, .location_count = 1, .values = values};
        CHECK_INT(sonde_profile_add_sample_at(profile, &sample, &index), ==, SONDE_OK);
        CHECK_INT(index, ==, i);
    }
    for (uint32_t i = 0; i < seconds * 200; i++) {
        uint32_t second = i / 200, id = i % 200 < of_hash[second] ? 0 : 1 + random_below(&seed, 2);
        uint32_t location = id + 1;
        int64_t values[] = {1, SAMPLE_NS};
        struct sonde_sample sample = {
            .locations = &location, .location_count = 1, .values = values};
        CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
        timeline->entries[timeline->count++] = (struct sonde_timeline_entry){
            id, second * BINS_PER_SECOND + random_below(&seed, BINS_PER_SECOND), 1};
    }
    sonde_timeline_sort(timeline);
    sonde_profile_set_timeline(profile, timeline);
    sonde_profile_set_info(profile,
                           &(struct sonde_profile_info){.period_type = types[1],
                                                        .period = SAMPLE_NS,
                                                        .duration_ns = seconds * 1000000000ll,
                                                        .default_type = 1});
    return profile;
}

static struct sonde_time_parts cut(const struct sonde_profile *profile, uint32_t from_ms,
                                   uint32_t until_ms) {
    struct sonde_time_parts parts;
    CHECK_INT(sonde_time_parts_cut(profile, (struct sonde_timeline_range){from_ms, until_ms},
                                   &parts, NULL),
              ==, SONDE_OK);
    return parts;
}

static const uint32_t steady[24] = {100, 101, 99, 100, 98, 102, 101, 99, 100, 101, 98, 100,
                                    99,  100, 98, 99,  98, 102, 99,  99, 100, 97,  98, 100};

TEST(the_parts_of_a_capture_have_all_its_samples) {
    struct sonde_profile *profile = capture(13, steady, SEED);
    struct sonde_time_parts parts = cut(profile, 0, 0);
    int64_t samples = 0;
    double exposure = 0;
    CHECK_INT(parts.count, ==, SONDE_TIME_PARTS);
    for (size_t i = 0; i < parts.count; i++) {
        samples += sonde_profile_total(parts.profiles[i], 0);
        exposure += parts.exposures[i];
    }
    CHECK_INT(samples, ==, 13 * 200);
    CHECK_NEAR(exposure, 1, 1e-9);
    sonde_time_parts_finish(&parts);
    sonde_profile_destroy(profile);
}

TEST(a_part_of_the_time_is_cut_into_its_own_seconds) {
    struct sonde_profile *profile = capture(13, steady, SEED);
    struct sonde_time_parts parts = cut(profile, 2000, 7000);
    CHECK_INT(parts.count, ==, 5);
    for (size_t i = 0; i < parts.count; i++)
        CHECK_INT(sonde_profile_total(parts.profiles[i], 0), ==, 200);
    sonde_time_parts_finish(&parts);
    sonde_profile_destroy(profile);
}

/* The whole of a range has all of the bin that it begins in. */
TEST(a_range_that_begins_within_a_bin_has_all_its_samples) {
    struct sonde_profile *profile = capture(13, steady, SEED), *whole;
    uint32_t from_ms = 1000 + SONDE_TIMELINE_BIN_MS - 1;
    const struct sonde_timeline_range range = {from_ms, 8000 + SONDE_TIMELINE_BIN_MS / 2};
    struct sonde_time_parts parts = cut(profile, range.from_ms, range.until_ms);
    int64_t samples = 0;
    double exposure = 0;
    CHECK_INT(sonde_timeline_cut(profile, range, &whole, NULL), ==, SONDE_OK);
    for (size_t i = 0; i < parts.count; i++) {
        samples += sonde_profile_total(parts.profiles[i], 0);
        exposure += parts.exposures[i];
    }
    CHECK_INT(samples, ==, sonde_profile_total(whole, 0));
    CHECK_NEAR(exposure, 1, 1e-9);
    sonde_time_parts_finish(&parts);
    sonde_profile_destroy(whole);
    sonde_profile_destroy(profile);
}

TEST(a_short_capture_and_one_without_times_are_one_block) {
    struct sonde_profile *profile = capture(13, steady, SEED);
    struct sonde_time_parts few = cut(profile, 0, 3900);
    sonde_profile_set_timeline(profile, NULL);
    struct sonde_time_parts none = cut(profile, 0, 0);
    CHECK_INT(few.count, ==, 0);
    CHECK_INT(none.count, ==, 0);
    const struct sonde_profile *whole = profile;
    CHECK_INT(sonde_time_parts_side(&none, &whole, 1).count, ==, 1);
    CHECK(sonde_time_parts_side(&none, &whole, 1).whole == NULL);
    sonde_profile_destroy(profile);
}

/* ---- Comparisons ---- */

static struct sonde_comparison *compare(const struct sonde_profile *base,
                                        const struct sonde_profile *now, bool by_part) {
    struct sonde_time_parts parts[] = {{.count = 0}, {.count = 0}};
    struct sonde_comparison *comparison;
    if (by_part) {
        parts[0] = cut(base, 0, 0);
        parts[1] = cut(now, 0, 0);
    }
    const struct sonde_blocks_side sides[] = {sonde_time_parts_side(&parts[0], &base, 1),
                                              sonde_time_parts_side(&parts[1], &now, 1)};
    const struct sonde_comparison_options options = {.measure = VERDICT_SHARE};
    CHECK_INT(sonde_comparison_create(sides, &options, &comparison, NULL), ==, SONDE_OK);
    sonde_time_parts_finish(&parts[0]);
    sonde_time_parts_finish(&parts[1]);
    return comparison;
}

static enum verdict verdict_of_hash(const struct sonde_comparison *comparison) {
    return sonde_comparison_find(comparison, "hash", "")->self[VERDICT_SHARE].verdict;
}

/* hash has bursts of a second. Its samples alone look like a change. */
TEST(work_in_bursts_is_noise_between_seconds) {
    const uint32_t base[] = {40, 150, 60, 170, 30, 120, 40, 160, 50, 90, 20, 140};
    const uint32_t now[] = {90, 160, 30, 180, 70, 150, 20, 170, 110, 160, 40, 150};
    struct sonde_profile *before = capture(12, base, SEED), *after = capture(12, now, SEED + 1);
    struct sonde_comparison *whole = compare(before, after, false);
    struct sonde_comparison *parts = compare(before, after, true);
    CHECK_INT(verdict_of_hash(whole), ==, VERDICT_MORE);
    CHECK_INT(verdict_of_hash(parts), ==, VERDICT_NOISE);
    CHECK_INT(parts->blocks[0], ==, 12);
    CHECK(!parts->is_correlated);
    sonde_comparison_destroy(whole);
    sonde_comparison_destroy(parts);
    sonde_profile_destroy(before);
    sonde_profile_destroy(after);
}

/* Seconds resemble their neighbours: 12 of them are the evidence of fewer. */
TEST(neighbours_that_resemble_each_other_are_joined) {
    const uint32_t base[] = {40, 42, 41, 150, 152, 149, 45, 44, 46, 150, 148, 151};
    const uint32_t rise[] = {10, 20, 30, 40, 60, 80, 100, 120, 130, 140, 150, 160};
    struct sonde_profile *before = capture(12, base, SEED), *after = capture(12, rise, SEED + 1);
    struct sonde_comparison *comparison = compare(before, after, true);
    printf("blocks: %zu and %zu\n", comparison->blocks[0], comparison->blocks[1]);
    CHECK_INT(comparison->blocks[0], ==, 6);
    CHECK_INT(comparison->blocks[1], ==, 6);
    CHECK(comparison->is_correlated); /* a rise has no independent parts */
    CHECK_NEAR(comparison->whole.before, 12 * 200 * (double)SAMPLE_NS, 1);
    sonde_comparison_destroy(comparison);
    sonde_profile_destroy(before);
    sonde_profile_destroy(after);
}

TEST(a_change_of_the_level_is_found_in_the_parts) {
    uint32_t more[12];
    for (size_t i = 0; i < 12; i++)
        more[i] = steady[12 + i] + 12;
    struct sonde_profile *before = capture(12, steady, SEED), *after = capture(12, more, SEED + 1);
    struct sonde_comparison *comparison = compare(before, after, true);
    CHECK_INT(verdict_of_hash(comparison), ==, VERDICT_MORE);
    CHECK_STR(comparison->causes[0].function->name, "hash");
    sonde_comparison_destroy(comparison);
    sonde_profile_destroy(before);
    sonde_profile_destroy(after);
}

/* 24 blocks of 50,000 stacks are more cells than a comparison may have. */
TEST(blocks_of_a_huge_profile_are_joined_to_save_memory) {
    const struct sonde_value_type type = {"cpu", "nanoseconds"};
    const bool is_in_time[] = {true, true};
    struct sonde_blocks blocks = {.both = sonde_profile_create(&type, 1, 0),
                                  .counts = {12, 24},
                                  .exposures = calloc(36, sizeof(double))};
    for (uint32_t i = 0; i < 50000; i++) {
        const struct sonde_location location = {.address = i + 1};
        const int64_t value = 1;
        uint32_t id;
        CHECK_INT(sonde_profile_add_location(blocks.both, &location, &id), ==, SONDE_OK);
        const struct sonde_sample sample = {
            .locations = &id, .location_count = 1, .values = &value};
        CHECK_INT(sonde_profile_add_sample(blocks.both, &sample), ==, SONDE_OK);
    }
    for (size_t i = 0; i < 36; i++)
        blocks.exposures[i] = i < 12 ? 1 : 2;
    CHECK_INT(blocks_join(&blocks, is_in_time), ==, SONDE_OK);
    CHECK_INT(blocks.counts[0], ==, 12);
    CHECK_INT(blocks.counts[1], ==, 12);
    CHECK_NEAR(blocks.exposures[11], 1, 0);
    CHECK_NEAR(blocks.exposures[12], 4, 0);
    CHECK_NEAR(blocks.exposures[23], 4, 0);
    sonde_blocks_finish(&blocks);
}
