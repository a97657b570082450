/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/draw.h"
#include "api/profile/diff/diff.h"
#include "api/profile/diff/match.h"
#include "api/profile/diff/match_names.h"
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <stdlib.h>

static bool is(struct sonde_slice slice, const char *text) {
    return sonde_slice_equals(slice, text);
}

TEST(libraries_have_names_without_versions) {
    CHECK(is(match_library("/lib/x86_64-linux-gnu/libssl.so.1.1"), "libssl"));
    CHECK(is(match_library("/lib/libssl.so.3"), "libssl"));
    CHECK(is(match_library("libpython3.11.so.1.0"), "libpython"));
    CHECK(is(match_library("/opt/libfoo-1.2.so (deleted)"), "libfoo"));
    CHECK(is(match_library("libglib-2.0.so.0"), "libglib"));
    CHECK(is(match_library("libX11.so.6"), "libX11"));
    CHECK(is(match_library("mod.sound.so"), "mod.sound"));
    CHECK(is(match_library("/"), "/"));
    CHECK(is(match_library(""), ""));
    CHECK(is(match_library("-1"), "-1"));
    CHECK(is(match_library("1.2.3"), "1.2.3"));
}

TEST(functions_have_names_without_what_compilers_append) {
    CHECK(is(match_function("parse"), "parse"));
    CHECK(is(match_function("parse.isra.0"), "parse"));
    CHECK(is(match_function("parse.constprop.0.cold"), "parse"));
    CHECK(is(match_function("parse(int) [clone .part.3]"), "parse(int)"));
    CHECK(is(match_function("app::run::h0123456789abcdef"), "app::run"));
    CHECK(is(match_function("app::run::h0123456789abcdeg"), "app::run::h0123456789abcdeg"));
    CHECK(is(match_function("::h0123456789abcdef"), "::h0123456789abcdef"));
    CHECK(is(match_function(".cold"), ".cold"));
    CHECK(is(match_function(""), ""));
}

/* The sum over the stacks whose leaf has that name, or is an address if name is "". */
static int64_t value_of(const struct sonde_profile *profile, const char *name) {
    int64_t sum = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        const struct sonde_location *leaf = sonde_profile_location(profile, sample.locations[0]);
        const char *leaf_name = "";
        if (leaf->line_count > 0)
            leaf_name = sonde_profile_text(
                profile, sonde_profile_function(profile, leaf->lines[0].function)->name);
        if (strcmp(leaf_name, name) == 0)
            sum += sample.values[0];
    }
    return sum;
}

TEST(two_builds_with_different_file_names_differ_only_in_what_changed) {
    struct sonde_profile *base = fixture("version_1"), *now = fixture("version_2"), *diff;
    const struct sonde_diff_options options = {.growth_only = true, .by_function = true};
    CHECK_INT(sonde_profile_diff(base, now, &options, &diff, NULL), ==, SONDE_OK);
    CHECK_INT(value_of(diff, "parse_header"), ==, 300);
    CHECK_INT(value_of(diff, "verify"), ==, 100);
    CHECK_INT(value_of(diff, "[libpack.so.2]"), ==, 0);
    sonde_profile_destroy(diff);
    CHECK_INT(sonde_profile_diff(base, now, NULL, &diff, NULL), ==, SONDE_OK);
    CHECK_INT(value_of(diff, "parse_header"), ==, 300);
    CHECK_INT(value_of(diff, "log_line"), ==, -200);
    CHECK_INT(value_of(diff, "checksum"), ==, 0);
    CHECK_INT(value_of(diff, "checksum.isra.0"), ==, 0);
    CHECK_INT(value_of(diff, "pack"), ==, 0);
    CHECK_INT(value_of(diff, "[libpack.so.2]"), ==, 0);
    CHECK_INT(sonde_profile_total(diff, 0), ==, 200);
    sonde_profile_destroy(diff);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
}

static void add_function(struct sonde_profile *profile, const char *name, uint32_t *id) {
    struct sonde_function function = {0};
    CHECK_INT(sonde_profile_string(profile, name, strlen(name), &function.name), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_function(profile, &function, id), ==, SONDE_OK);
}

/* A profile of one stack of one location in the file; name: NULL = none. */
static struct sonde_profile *one_called(const char *name, const char *path, const char *build_id,
                                        uint64_t start, uint64_t offset,
                                        enum sonde_frame_kind kind) {
    const struct sonde_value_type type = {"samples", "count"};
    struct sonde_profile *profile = sonde_profile_create(&type, 1, 0);
    struct sonde_mapping mapping = {.start = start, .limit = start + 0x10000, .offset = offset};
    struct sonde_location location = {.kind = kind, .address = start + 0x123 - offset};
    struct sonde_line line = {0};
    uint32_t id;
    const int64_t value = 5;
    const struct sonde_sample sample = {.locations = &id, .location_count = 1, .values = &value};
    CHECK_INT(sonde_profile_string(profile, path, strlen(path), &mapping.filename), ==, SONDE_OK);
    CHECK_INT(sonde_profile_string(profile, build_id, strlen(build_id), &mapping.build_id), ==,
              SONDE_OK);
    CHECK_INT(sonde_profile_add_mapping(profile, &mapping, &location.mapping), ==, SONDE_OK);
    if (name) {
        add_function(profile, name, &line.function);
        location.lines = &line;
        location.line_count = 1;
    }
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    return profile;
}

static struct sonde_profile *one(const char *path, const char *build_id, uint64_t start,
                                 uint64_t offset, enum sonde_frame_kind kind) {
    return one_called(NULL, path, build_id, start, offset, kind);
}

/* The number of stacks in the difference of two such profiles. */
static size_t differing(struct sonde_profile *base, struct sonde_profile *now, bool by_function) {
    const struct sonde_diff_options options = {.by_function = by_function};
    struct sonde_profile *diff;
    CHECK_INT(sonde_profile_diff(base, now, &options, &diff, NULL), ==, SONDE_OK);
    size_t count = sonde_profile_sample_count(diff);
    sonde_profile_destroy(diff);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
    return count;
}

static uint32_t add_frame(struct sonde_profile *profile, const char *name) {
    struct sonde_line line = {0};
    struct sonde_location location = {.lines = &line, .line_count = 1};
    uint32_t id = 0;
    add_function(profile, name, &line.function);
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
    return id;
}

/* Samples of "work" in processes, which are the outermost frames. */
static struct sonde_profile *of_processes(const char *first, const char *second) {
    const struct sonde_value_type type = {"samples", "count"};
    struct sonde_profile *profile = sonde_profile_create(&type, 1, 0);
    const char *const processes[] = {first, second};
    const int64_t value = 10;
    CHECK(profile);
    for (int i = 0; i < 2 && processes[i]; i++) {
        uint32_t locations[] = {add_frame(profile, "work"), add_frame(profile, processes[i])};
        struct sonde_sample sample = {
            .locations = locations, .location_count = 2, .values = &value};
        CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    }
    return profile;
}

TEST(a_tree_of_one_process_is_titled_with_its_name) {
    struct sonde_profile *profiles[] = {of_processes("server", NULL), of_processes("a", "b")};
    static const char *const titles[] = {"<title>server, ", "<title>process 7 and its children, "};
    for (int i = 0; i < 2; i++) {
        struct sonde_buf out = {0};
        CHECK_INT(sonde_profile_add_comment(profiles[i], "target: @all:7"), ==, SONDE_OK);
        CHECK_INT(sonde_draw(profiles[i], SONDE_FORMAT_SVG_FLAMEGRAPH, NULL, &out, NULL), ==,
                  SONDE_OK);
        CHECK(strstr(out.data, titles[i]) != NULL);
        sonde_buf_finish(&out);
        sonde_profile_destroy(profiles[i]);
    }
}

TEST(the_only_process_of_each_profile_is_the_same) {
    CHECK_INT(differing(of_processes("server-1.0", NULL), of_processes("server-1.1", NULL), true),
              ==, 0);
    CHECK_INT(differing(of_processes("[exited]", NULL), of_processes("server-1.1", NULL), true), ==,
              2);
    CHECK_INT(differing(of_processes("a", "b"), of_processes("a", NULL), true), ==, 1);
    CHECK_INT(differing(of_processes("a", "b"), of_processes("b", "a"), true), ==, 0);
    CHECK_INT(differing(of_processes("a", "b"), of_processes("c", NULL), true), ==, 3);
}

TEST(code_without_names_of_the_same_build_matches_at_any_address) {
    const char *path = "/usr/lib/libz.so.1";
    CHECK_INT(differing(one(path, "ab", 0x10000, 0, SONDE_FRAME_LIBRARY),
                        one(path, "ab", 0x7f0000, 0x100, SONDE_FRAME_LIBRARY), false),
              ==, 0);
    CHECK_INT(differing(one(path, "", 0x10000, 0, SONDE_FRAME_LIBRARY),
                        one(path, "", 0x7f0000, 0, SONDE_FRAME_LIBRARY), true),
              ==, 0);
    CHECK_INT(differing(one("/a/app-1", "ab", 0x10000, 0, SONDE_FRAME_APPLICATION),
                        one("/b/app-2", "ab", 0x20000, 0, SONDE_FRAME_APPLICATION), false),
              ==, 0);
}

TEST(code_whose_name_arrived_between_the_profiles_does_not_differ) {
    static const char *const names[] = {"[app]+0x123", NULL, "Pool::add", "Pool::add(long)"};
    for (int base = 0; base < 4; base++)
        for (int now = 0; now < 8; now++)
            CHECK_INT(
                differing(
                    one_called(names[base], "/a/app", "ab", 0x10000, 0, SONDE_FRAME_APPLICATION),
                    one_called(names[now % 4], "/a/app", "ab", 0x30000, 0, SONDE_FRAME_APPLICATION),
                    now >= 4),
                ==, 0);
    CHECK_INT(differing(one_called("read", "/a/app", "ab", 0x10000, 0, SONDE_FRAME_APPLICATION),
                        one_called("write", "/a/app", "cd", 0x10000, 0, SONDE_FRAME_APPLICATION),
                        false),
              ==, 2);
}

/* Some writers give all locations of a file the address 0. */
static struct sonde_profile *without_addresses(void) {
    struct sonde_profile *profile =
        one_called("read", "/a/app", "ab", 0, 0x123, SONDE_FRAME_APPLICATION);
    struct sonde_location location = *sonde_profile_location(profile, 1);
    struct sonde_line line = {0};
    const int64_t value = 5;
    uint32_t id;
    const struct sonde_sample sample = {.locations = &id, .location_count = 1, .values = &value};
    add_function(profile, "write", &line.function);
    location.lines = &line;
    CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
    CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    return profile;
}

TEST(functions_without_addresses_stay_apart) {
    CHECK_INT(differing(without_addresses(), without_addresses(), true), ==, 0);
}

/* pprof files do not have kinds: the first file counts as the program. */
TEST(a_program_of_several_matches_whether_or_not_it_is_the_first_file) {
    CHECK_INT(differing(one("/a/app", "ab", 0x10000, 0, SONDE_FRAME_APPLICATION),
                        one("/a/app", "ab", 0x20000, 0, SONDE_FRAME_LIBRARY), true),
              ==, 0);
}

TEST(generated_code_matches_only_at_its_address) {
    CHECK_INT(differing(one("[anon]", "", 0x10000, 0, SONDE_FRAME_JIT),
                        one("[anon]", "", 0x20000, 0, SONDE_FRAME_JIT), false),
              ==, 2);
    CHECK_INT(differing(one("[anon]", "", 0x10000, 0, SONDE_FRAME_JIT),
                        one("[anon]", "", 0x10000, 0, SONDE_FRAME_JIT), false),
              ==, 0);
}

TEST(different_libraries_and_programs_beside_the_same_name_do_not_match) {
    CHECK_INT(differing(one("/lib/libssl.so.1", "ab", 0x10000, 0, SONDE_FRAME_LIBRARY),
                        one("/lib/libz.so.1", "cd", 0x10000, 0, SONDE_FRAME_LIBRARY), true),
              ==, 2);
    CHECK_INT(differing(one("/lib/app", "ab", 0x10000, 0, SONDE_FRAME_LIBRARY),
                        one("/lib/other", "cd", 0x10000, 0, SONDE_FRAME_APPLICATION), true),
              ==, 2);
}

TEST(code_without_names_of_other_builds_is_one_frame_or_keeps_its_addresses) {
    struct sonde_profile *base = one("/a/app-1", "ab", 0x10000, 0, SONDE_FRAME_APPLICATION);
    struct sonde_profile *now = one("/a/app-2", "cd", 0x20000, 0x100, SONDE_FRAME_APPLICATION);
    struct sonde_diff_options options = {.keep_addresses = true};
    struct sonde_profile *diff;
    CHECK_INT(sonde_profile_diff(base, now, &options, &diff, NULL), ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(diff), ==, 2);
    for (size_t i = 0; i < 2; i++) {
        struct sonde_sample sample = sonde_profile_sample(diff, i);
        const struct sonde_location *location = sonde_profile_location(diff, sample.locations[0]);
        CHECK_INT(location->address, ==, i ? 0x10123 : 0x20023);
        CHECK_STR(
            sonde_profile_text(diff, sonde_profile_mapping(diff, location->mapping)->filename),
            i ? "/a/app-1" : "/a/app-2");
    }
    sonde_profile_destroy(diff);
    CHECK_INT(differing(base, now, false), ==, 0);
}

TEST(a_matched_profile_keeps_its_values_and_labels) {
    struct sonde_profile *base = fixture("server"), *now = fixture("version_2");
    struct profile_pair pair;
    CHECK_INT(profile_match(base, now, true, &pair), ==, SONDE_OK);
    const struct sonde_profile *matched = pair.base;
    CHECK_INT(sonde_profile_total(matched, 1), ==, sonde_profile_total(base, 1));
    CHECK_INT(sonde_profile_sample_count(matched), ==, sonde_profile_sample_count(base));
    CHECK_STR(sonde_profile_text(matched, sonde_profile_mapping(matched, 1)->filename),
              "/srv/server-2.0/server-2.0");
    struct sonde_sample sample = sonde_profile_sample(matched, 0);
    CHECK_STR(sonde_sample_label(matched, &sample, "thread"), "server");
    profile_pair_finish(&pair);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
}
