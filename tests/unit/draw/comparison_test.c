/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/compare/changes.h"
#include "api/draw/compare/comparison.h"
#include "api/draw/diff.h"
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Stacks "main;NAME" with numbers of samples of 10 ms; "CALLER;FUNCTION" as a name are two
 * frames. */
struct stack {
    const char *name;
    int64_t samples;
};

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

static struct sonde_profile *profile_of(const struct stack *stacks, size_t count) {
    const struct sonde_value_type types[] = {{"samples", "count"}, {"cpu", "nanoseconds"}};
    struct sonde_profile *profile = sonde_profile_create(types, 2, 0);
    const struct sonde_profile_info info = {
        .period_type = types[1], .period = 10000000, .duration_ns = 10000000000, .default_type = 1};
    sonde_profile_set_info(profile, &info);
    uint32_t main_ = add_location(profile, "main");
    for (size_t i = 0; i < count; i++) {
        const char *inner = strchr(stacks[i].name, ';');
        char caller[32] = "main";
        if (inner)
            snprintf(caller, sizeof caller, "%.*s", (int)(inner - stacks[i].name), stacks[i].name);
        const uint32_t path[] = {add_location(profile, inner ? inner + 1 : stacks[i].name),
                                 inner ? add_location(profile, caller) : main_, main_};
        const int64_t values[] = {stacks[i].samples, stacks[i].samples * 10000000};
        const struct sonde_sample sample = {
            .locations = path, .location_count = inner ? 3 : 2, .values = values};
        CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    }
    return profile;
}

static struct sonde_comparison *compare(const struct sonde_profile *const *base, size_t base_count,
                                        const struct sonde_profile *const *now, size_t now_count,
                                        enum verdict_measure measure) {
    const struct sonde_blocks_side sides[] = {{.profiles = base, .count = base_count, .scale = 1},
                                              {.profiles = now, .count = now_count, .scale = 1}};
    const struct sonde_comparison_options options = {.measure = measure};
    struct sonde_comparison *comparison;
    CHECK_INT(sonde_comparison_create(sides, &options, &comparison, NULL), ==, SONDE_OK);
    return comparison;
}

static const struct sonde_comparison_function *find(const struct sonde_comparison *comparison,
                                                    const char *name) {
    const struct sonde_comparison_function *function = sonde_comparison_find(comparison, name, "");
    CHECK(function != NULL);
    return function;
}

/* hash doubles. The shares of parse and write fall, but only because of that. */
TEST(a_function_explains_the_change_and_not_its_echo) {
    const struct stack before[] = {{"hash", 1000}, {"parse", 1000}, {"write", 1000}};
    const struct stack after[] = {{"hash", 2000}, {"parse", 1000}, {"write", 1000}};
    const struct sonde_profile *base = profile_of(before, 3), *now = profile_of(after, 3);
    struct sonde_comparison *comparison = compare(&base, 1, &now, 1, VERDICT_SHARE);
    CHECK_INT(comparison->cause_count, ==, 1);
    CHECK_STR(comparison->causes[0].function->name, "hash");
    CHECK_INT(comparison->causes[0].caller_count, ==, 1);
    CHECK_STR(comparison->causes[0].callers[0], "main");
    CHECK_INT(find(comparison, "parse")->self[VERDICT_SHARE].verdict, ==, VERDICT_LESS);
    CHECK_INT(find(comparison, "parse")->self[VERDICT_AMOUNT].verdict, ==, VERDICT_NOISE);
    CHECK_STR(comparison->functions[0].name, "hash");
    sonde_comparison_destroy(comparison);
    sonde_profile_destroy((struct sonde_profile *)base);
    sonde_profile_destroy((struct sonde_profile *)now);
}

/* The share of parse shrinks by as much as that of hash grows, but by a smaller factor. */
TEST(of_two_functions_the_one_that_changed_by_the_larger_factor_explains) {
    const struct stack before[] = {{"a_parse", 9000}, {"hash", 1000}};
    const struct stack after[] = {{"a_parse", 9000}, {"hash", 1500}};
    const struct sonde_profile *base = profile_of(before, 2), *now = profile_of(after, 2);
    struct sonde_comparison *comparison = compare(&base, 1, &now, 1, VERDICT_SHARE);
    CHECK_INT(comparison->cause_count, ==, 1);
    CHECK_STR(comparison->causes[0].function->name, "hash");
    sonde_comparison_destroy(comparison);
    sonde_profile_destroy((struct sonde_profile *)base);
    sonde_profile_destroy((struct sonde_profile *)now);
}

/* checksum grows within write, which shrinks by a larger factor. Without write it would have
 * shrunk: from 1000 of 2000 to 2900 of 9900. */
TEST(a_function_that_grows_in_one_that_shrinks_is_a_cause) {
    const struct stack before[] = {{"write", 8000}, {"write;checksum", 1000}, {"parse", 1000}};
    const struct stack after[] = {{"write", 100}, {"write;checksum", 2900}, {"parse", 7000}};
    const struct sonde_profile *base = profile_of(before, 3), *now = profile_of(after, 3);
    struct sonde_comparison *comparison = compare(&base, 1, &now, 1, VERDICT_SHARE);
    bool is_named = false;
    for (size_t i = 0; i < comparison->cause_count; i++)
        is_named |= strcmp(comparison->causes[i].function->name, "checksum") == 0;
    CHECK(is_named);
    sonde_comparison_destroy(comparison);
    sonde_profile_destroy((struct sonde_profile *)base);
    sonde_profile_destroy((struct sonde_profile *)now);
}

TEST(only_what_certainly_exceeds_a_limit_exceeds_it) {
    const struct stack before[] = {{"hash", 1000}, {"parse", 9000}};
    const struct stack after[] = {{"hash", 1400}, {"parse", 9000}};
    const struct sonde_profile *base = profile_of(before, 2), *now = profile_of(after, 2);
    struct sonde_comparison *comparison = compare(&base, 1, &now, 1, VERDICT_AMOUNT);
    const struct sonde_comparison_function *hash = find(comparison, "hash");
    CHECK_NEAR(hash->self[VERDICT_AMOUNT].change, 4e9, 1); /* 4 % ± 1 of the base */
    CHECK(sonde_comparison_exceeds(comparison, hash, 0.029));
    CHECK(!sonde_comparison_exceeds(comparison, hash, 0.032));
    CHECK(!sonde_comparison_exceeds(comparison, find(comparison, "parse"), 0));
    sonde_comparison_destroy(comparison);
    sonde_profile_destroy((struct sonde_profile *)base);
    sonde_profile_destroy((struct sonde_profile *)now);
}

/* One run of each side differs by 40 %, but so do runs of the same side. */
TEST(runs_that_differ_make_a_change_noise) {
    const struct stack runs[][2] = {
        {{"hash", 1000}, {"parse", 1000}}, {{"hash", 1500}, {"parse", 1000}},
        {{"hash", 1100}, {"parse", 1000}}, {{"hash", 1400}, {"parse", 1000}},
        {{"hash", 1600}, {"parse", 1000}}, {{"hash", 1050}, {"parse", 1000}}};
    const struct sonde_profile *all[6];
    for (size_t i = 0; i < 6; i++)
        all[i] = profile_of(runs[i], 2);
    struct sonde_comparison *one = compare(&all[0], 1, &all[3], 1, VERDICT_AMOUNT);
    struct sonde_comparison *three = compare(&all[0], 3, &all[3], 3, VERDICT_AMOUNT);
    CHECK_INT(find(one, "hash")->self[VERDICT_AMOUNT].verdict, ==, VERDICT_MORE);
    CHECK_INT(find(three, "hash")->self[VERDICT_AMOUNT].verdict, ==, VERDICT_NOISE);
    CHECK_NEAR(find(three, "hash")->self[VERDICT_AMOUNT].before, 12e9, 1);
    sonde_comparison_destroy(one);
    sonde_comparison_destroy(three);
    for (size_t i = 0; i < 6; i++)
        sonde_profile_destroy((struct sonde_profile *)all[i]);
}

static char *draw(const struct sonde_profile *base, const struct sonde_profile *now,
                  enum sonde_format format) {
    const struct sonde_draw_diff diff = {.base = base, .now = now};
    const struct sonde_draw_options options = {.max_rows = 1};
    struct sonde_buf out = {0};
    size_t len;
    CHECK_INT(sonde_draw_difference(&diff, format, &options, &out, NULL), ==, SONDE_OK);
    return sonde_buf_take(&out, &len);
}

/* 95 and 96 samples of the same load: half of the colours would be saturated. */
TEST(a_difference_of_the_same_load_is_grey_and_says_how_little_it_can_see) {
    const struct stack before[] = {
        {"hash", 40}, {"parse", 24}, {"lex", 12}, {"write", 16}, {"poll", 3}};
    const struct stack after[] = {
        {"hash", 33}, {"parse", 31}, {"lex", 18}, {"write", 9}, {"log", 5}};
    struct sonde_profile *base = profile_of(before, 5), *now = profile_of(after, 5);
    char *svg = draw(base, now, SONDE_FORMAT_SVG_FLAMEGRAPH);
    const char *frames = strstr(svg, "<g class=\"frames\">");
    CHECK(frames && strstr(frames, "class=\"W0\"") && strstr(frames, "within noise\"><title>"));
    const char *end = strstr(frames, "</g>");
    for (const char *at = frames; (at = strstr(at, "<path class=\"")) && at < end; at++)
        CHECK(strncmp(at, "<path class=\"W0\"", 16) == 0);
    CHECK(strstr(svg, "95 and 96 samples: in a large function, changes below 14 %") != NULL);
    char *table = draw(base, now, SONDE_FORMAT_TEXT_TOP);
    CHECK(strstr(table, "Showing 1 of 7 functions\n") != NULL);
    CHECK(strstr(table, " ~  ") || strstr(table, " ~ "));
    free(svg);
    free(table);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
}

/* What the table says if no change is certain. */
static void check_verdict(const struct stack *before, const struct stack *after, size_t count,
                          const char *expected) {
    struct sonde_profile *base = profile_of(before, count), *now = profile_of(after, count);
    char *table = draw(base, now, SONDE_FORMAT_TEXT_TOP);
    const char *verdict = strstr(table, "# verdict: ");
    if (expected)
        CHECK(verdict && strncmp(verdict, expected, strlen(expected)) == 0);
    else
        CHECK(verdict == NULL);
    free(table);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
}

TEST(a_table_without_a_certain_change_says_why) {
    const struct stack many[] = {{"hash", 1000}, {"lex", 1000}};
    const struct stack similar[] = {{"hash", 990}, {"lex", 1010}};
    const struct stack other[] = {{"hash", 4000}, {"lex", 1000}};
    const struct stack none[] = {{"hash", 0}}, one[] = {{"hash", 1}};
    check_verdict(many, similar, 2, "# verdict: no function is certain to have changed\n");
    check_verdict(none, one, 1, "# verdict: too few samples to see a change\n");
    check_verdict(many, other, 2, NULL);
    check_verdict(many, many, 0, NULL);
}

TEST(json_has_every_function_and_null_for_what_is_unknown) {
    const struct stack before[] = {{"hash", 100}, {"a\"b", 50}}, after[] = {{"hash", 300}};
    struct sonde_profile *base = profile_of(before, 2), *now = profile_of(after, 1);
    char *json = draw(base, now, SONDE_FORMAT_CHANGES);
    CHECK(strstr(json, "{\"type\":\"cpu\",\"unit\":\"nanoseconds\",\"measure\":\"share\",") ==
          json);
    CHECK(strstr(json, "{\"name\":\"a\\\"b\",\"module\":\"\",\"self\":{\"share\":{") != NULL);
    CHECK(strstr(json, "\"change\":2000000000,") && strstr(json, "\"verdict\":\"more\"}"));
    CHECK(strstr(json, "\"samples\":150,\"blocks\":1}") && strstr(json, "\"callers\":[\"main\"]"));
    free(json);
    struct sonde_profile *heap = fixture("trimmed"), *grown = fixture("grown");
    json = draw(heap, grown, SONDE_FORMAT_CHANGES);
    CHECK(strstr(json, "\"low\":null,\"high\":null,\"verdict\":\"not enough samples\"}") != NULL);
    CHECK(strstr(json, "\"note\":\"which changes of memory are sampling errors is unknown") !=
          NULL);
    free(json);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
    sonde_profile_destroy(heap);
    sonde_profile_destroy(grown);
}

#define MANY 4200 /* functions, and profiles: more cells than are allowed */

TEST(too_many_functions_in_too_many_profiles_are_refused) {
    static struct stack stacks[MANY];
    static char names[MANY][16];
    static const struct sonde_profile *profiles[MANY / 2];
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "function %d", i);
        stacks[i] = (struct stack){names[i], 10};
    }
    struct sonde_profile *large = profile_of(stacks, MANY), *small = profile_of(stacks, 1);
    for (int i = 0; i < MANY / 2; i++)
        profiles[i] = i == 0 ? large : small;
    const struct sonde_blocks_side side = {.profiles = profiles, .count = MANY / 2, .scale = 1};
    const struct sonde_blocks_side sides[] = {side, side};
    struct sonde_comparison *comparison;
    struct sonde_diag diag = {0};
    CHECK_INT(sonde_comparison_create(sides, NULL, &comparison, &diag), ==, SONDE_TOO_LARGE);
    CHECK(strstr(diag.text, "of 4200 profiles are too many to compare") != NULL);
    sonde_profile_destroy(large);
    sonde_profile_destroy(small);
}

TEST(changes_of_one_profile_are_refused) {
    struct sonde_profile *profile = fixture("server");
    struct sonde_diag diag = {0};
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_CHANGES, NULL, &out, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK_STR(diag.text, "changes is for differences of two profiles");
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
}

TEST(profiles_without_numbers_of_samples_have_no_verdicts) {
    const struct draw_doubts doubts = {.has_verdicts = false},
                             many = {.has_verdicts = true, .least_share_change = 0.01};
    struct sonde_buf out = {0};
    draw_put_doubts(&out, &many);
    CHECK_INT(out.len, ==, 0);
    draw_put_doubts(&out, &doubts);
    CHECK_STR(out.data, "which changes are noise is unknown, because the profiles do not have "
                        "numbers of samples");
    sonde_buf_finish(&out);
}
