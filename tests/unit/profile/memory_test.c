/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/heap/memory.h"
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <math.h>

static const char *name_of(const struct sonde_profile *profile, uint32_t id) {
    const struct sonde_location *location = sonde_profile_location(profile, id);
    if (location->line_count == 0)
        return "";
    return sonde_profile_text(profile,
                              sonde_profile_function(profile, location->lines[0].function)->name);
}

static struct sonde_profile *trim(const struct sonde_profile *profile,
                                  sonde_memory_own_lines *own_lines, void *context) {
    struct sonde_profile *trimmed;
    CHECK_INT(sonde_memory_trim(profile, own_lines, context, &trimmed, NULL), ==, SONDE_OK);
    return trimmed;
}

TEST(types_are_found_by_name_and_only_in_memory_profiles) {
    struct sonde_profile *heap = fixture("heap"), *memory = fixture("memory");
    struct sonde_profile *server = fixture("server");
    struct sonde_memory_types types;
    CHECK(sonde_memory_types(heap, &types));
    CHECK_INT(types.alloc_objects, ==, 0);
    CHECK_INT(types.inuse_space, ==, 3);
    CHECK(sonde_memory_types(memory, &types));
    CHECK_INT(types.inuse_space, ==, 0);
    CHECK(types.alloc_space == SONDE_PROFILE_NO_TYPE);
    CHECK(!sonde_memory_types(server, &types));
    sonde_profile_destroy(heap);
    sonde_profile_destroy(memory);
    sonde_profile_destroy(server);
}

TEST(pair_is_that_of_the_requested_type) {
    struct sonde_profile *heap = fixture("heap");
    struct sonde_memory_pair pair;
    CHECK(sonde_memory_pair(heap, 2, &pair));
    CHECK(pair.space == 3 && pair.objects == 2 && pair.is_counted);
    CHECK(sonde_memory_pair(heap, 1, &pair));
    CHECK(pair.space == 1 && pair.objects == 0 && !pair.is_counted);
    CHECK_NEAR(pair.period, 524288, 0);
    sonde_profile_destroy(heap);
}

TEST(samples_are_the_objects_times_their_probability) {
    double chance = 1 - exp(-64.0 / 524288);
    CHECK_NEAR(sonde_memory_samples(40 / chance, 40 / chance * 64, 524288), 40, 1e-6);
    CHECK_NEAR(sonde_memory_samples(7, 7 * 1e9, 524288), 7, 1e-6);
    CHECK_NEAR(sonde_memory_samples(7, 70, 1), 7, 0);
    CHECK_NEAR(sonde_memory_samples(0, 0, 524288), 0, 0);
}

TEST(large_objects_are_certain_to_be_sampled_and_small_ones_are_not) {
    const struct sonde_memory_pair pair = {.space = 1, .objects = 0, .period = 4096};
    const int64_t huge[] = {1, 6ll << 30}, small[] = {1000, 1000 * 41}, unknown[] = {0, 500};
    const struct sonde_sample samples[] = {
        {.values = huge}, {.values = small}, {.values = unknown}};
    CHECK_NEAR(sonde_memory_probability(&pair, &samples[0]), 1, 0);
    CHECK_NEAR(sonde_memory_probability(&pair, &samples[1]), 0.00996, 1e-5);
    CHECK_NEAR(sonde_memory_probability(&pair, &samples[2]), 0, 0);
}

TEST(trimmed_stacks_end_in_the_program_and_keep_the_total) {
    struct sonde_profile *heap = fixture("heap");
    struct sonde_profile *trimmed = trim(heap, sonde_memory_of_library, NULL);
    CHECK_INT(sonde_profile_sample_count(heap), ==, 5);
    CHECK_INT(sonde_profile_sample_count(trimmed), ==, 4); /* the two of grow_table are merged */
    for (size_t i = 0; i < 4; i++)
        CHECK_INT(sonde_profile_total(trimmed, i), ==, sonde_profile_total(heap, i));
    struct sonde_sample first = sonde_profile_sample(trimmed, 0);
    CHECK_STR(name_of(trimmed, first.locations[0]), "grow_table");
    CHECK_INT(first.sampled, ==, 10);
    for (size_t i = 0; i < sonde_profile_sample_count(trimmed); i++) {
        struct sonde_sample sample = sonde_profile_sample(trimmed, i);
        CHECK_INT(sample.location_count, >, 0);
        for (uint32_t k = 0; k < sample.location_count; k++)
            CHECK(!sonde_memory_of_library(NULL, trimmed,
                                           sonde_profile_location(trimmed, sample.locations[k])));
    }
    CHECK_INT(sonde_profile_mapping_count(trimmed), ==, sonde_profile_mapping_count(heap));
    CHECK_INT(sonde_profile_info(trimmed)->default_type, ==, 3);
    CHECK(sonde_profile_info(trimmed)->is_unbiased);
    sonde_profile_destroy(trimmed);
    sonde_profile_destroy(heap);
}

TEST(trimming_replaces_a_stack_of_allocator_frames_by_a_note) {
    struct sonde_profile *heap = fixture("heap");
    struct sonde_profile *trimmed = trim(heap, sonde_memory_of_library, NULL);
    struct sonde_sample last = sonde_profile_sample(trimmed, 3);
    CHECK_INT(last.location_count, ==, 1);
    CHECK_STR(name_of(trimmed, last.locations[0]), "[allocator]");
    CHECK_INT(sonde_profile_location(trimmed, last.locations[0])->kind, ==, SONDE_FRAME_NOTE);
    sonde_profile_destroy(trimmed);
    sonde_profile_destroy(heap);
}

static uint32_t is_named(void *context, const struct sonde_profile *profile,
                         const struct sonde_location *location) {
    for (uint32_t i = 0; i < location->line_count; i++) {
        const struct sonde_function *function =
            sonde_profile_function(profile, location->lines[i].function);
        if (strcmp(sonde_profile_text(profile, function->name), context) == 0)
            return SONDE_MEMORY_WHOLE;
    }
    return 0;
}

TEST(trimming_uses_the_callers_predicate_at_the_leaf_only) {
    struct sonde_profile *heap = fixture("memory");
    char name[] = "grow_table";
    struct sonde_profile *trimmed = trim(heap, is_named, name);
    CHECK_STR(name_of(trimmed, sonde_profile_sample(trimmed, 0).locations[0]), "main");
    CHECK_STR(name_of(trimmed, sonde_profile_sample(trimmed, 1).locations[0]), "duplicate");
    char root[] = "main"; /* not a leaf, so nothing is removed */
    struct sonde_profile *whole = trim(heap, is_named, root);
    CHECK_INT(sonde_profile_sample(whole, 0).location_count, ==, 2);
    CHECK_STR(sonde_sample_label(whole, &(struct sonde_sample){0}, "thread"), "");
    struct sonde_sample sample = sonde_profile_sample(whole, 0);
    CHECK_STR(sonde_sample_label(whole, &sample, "thread"), "server");
    sonde_profile_destroy(whole);
    sonde_profile_destroy(trimmed);
    sonde_profile_destroy(heap);
}

static uint32_t function_named(struct sonde_profile *profile, const char *name) {
    struct sonde_function function = {0};
    uint32_t id;
    CHECK_INT(sonde_profile_string(profile, name, strlen(name), &function.name), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_function(profile, &function, &id), ==, SONDE_OK);
    return id;
}

/* Adds a location whose functions were inlined into one another, innermost first. */
static uint32_t location_of(struct sonde_profile *profile, uint64_t address,
                            const char *const *names, uint32_t count) {
    struct sonde_line lines[8] = {0};
    struct sonde_location location = {.address = address, .line_count = count, .lines = lines};
    uint32_t id;
    for (uint32_t i = 0; i < count; i++)
        lines[i] = (struct sonde_line){function_named(profile, names[i]), i + 1};
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
    return id;
}

/* A program in Rust: alloc::alloc::alloc is a frame, and inlined into the functions that use it. */
TEST(wrappers_of_the_allocator_are_removed_from_the_functions_into_which_they_were_inlined) {
    static const char *const outer[] = {"my::Table::grow", "my::main"};
    static const char *const inner[] = {"__rust_alloc", "alloc::alloc::alloc", "my::Table::grow",
                                        "my::main"};
    static const char *const glue[] = {"core::hint::black_box", "alloc::alloc::alloc"};
    static const char *const root[] = {"std::rt::lang_start"};
    const struct sonde_value_type types[] = {{"inuse_objects", "count"}, {"inuse_space", "bytes"}};
    struct sonde_profile *heap = sonde_profile_create(types, 2, 0);
    bool built_in = false;
    CHECK(heap);
    uint32_t base = location_of(heap, 0x10, root, 1);
    uint32_t stacks[2][3] = {
        {location_of(heap, 0x100, inner, 4), base},
        {location_of(heap, 0x200, glue, 2), location_of(heap, 0x100, outer, 2), base}};
    for (uint32_t i = 0; i < 2; i++) {
        struct sonde_sample sample = {
            .locations = stacks[i], .location_count = 2 + i, .values = (int64_t[]){1, 100}};
        CHECK_INT(sonde_profile_add_sample(heap, &sample), ==, SONDE_OK);
    }
    struct sonde_profile *trimmed = trim(heap, sonde_memory_of_allocator, &built_in);
    CHECK_INT(sonde_profile_sample_count(trimmed), ==, 2); /* the lines of the calls differ */
    for (size_t i = 0; i < 2; i++) {
        struct sonde_sample sample = sonde_profile_sample(trimmed, i);
        const struct sonde_location *leaf = sonde_profile_location(trimmed, sample.locations[0]);
        CHECK_INT(sample.location_count, ==, 2);
        CHECK_INT(leaf->line_count, ==, 2);
        CHECK_INT(leaf->address, ==, 0x100);
        CHECK_STR(name_of(trimmed, sample.locations[0]), "my::Table::grow");
    }
    CHECK_INT(sonde_profile_total(trimmed, 1), ==, 200);
    sonde_profile_destroy(trimmed);
    sonde_profile_destroy(heap);
}
