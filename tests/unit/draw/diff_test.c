/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/diff.h"
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <stdio.h>
#include <stdlib.h>

/* Draws the difference between the profile and itself. */
static char *difference(enum sonde_format format, bool growth_only) {
    struct sonde_profile *base = fixture("server"), *now = fixture("server");
    const struct sonde_draw_diff diff = {.base = base, .now = now, .growth_only = growth_only};
    const struct sonde_draw_options options = {0};
    struct sonde_buf out = {0};
    size_t len;
    CHECK_INT(sonde_draw_difference(&diff, format, &options, &out, NULL), ==, SONDE_OK);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
    return sonde_buf_take(&out, &len);
}

TEST(draw_difference_has_both_values_where_the_viewer_compares) {
    char *text = difference(SONDE_FORMAT_GRAFANA, false);
    CHECK(
        strstr(text, "[{\"level\":0,\"value\":9818181720,\"self\":0,\"valueRight\":9818181720,") ==
        text);
    free(text);
    text = difference(SONDE_FORMAT_FLAMEBEARER, false);
    CHECK(strstr(text, "\"leftTicks\":9818181720,\"rightTicks\":9818181720}") != NULL);
    free(text);
}

TEST(draw_difference_of_growth_or_for_other_viewers_has_one_value) {
    char *text = difference(SONDE_FORMAT_GRAFANA, true);
    CHECK(strstr(text, "valueRight") == NULL);
    free(text);
    text = difference(SONDE_FORMAT_DEEPFLOW_TREE, false);
    CHECK_STR(text, "[]");
    free(text);
}

/* Two builds with different file names: parse_header is slower, verify is new, log_line is gone. */
static char *versions(enum sonde_format format, bool growth_only, bool normalise) {
    struct sonde_profile *base = fixture("version_1"), *now = fixture("version_2");
    const struct sonde_draw_diff diff = {.base = base,
                                         .now = now,
                                         .base_name = "capture 6",
                                         .now_name = "capture 7",
                                         .growth_only = growth_only,
                                         .normalise = normalise};
    const struct sonde_draw_options options = {0};
    struct sonde_buf out = {0};
    size_t len;
    CHECK_INT(sonde_draw_difference(&diff, format, &options, &out, NULL), ==, SONDE_OK);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
    return sonde_buf_take(&out, &len);
}

/* Whether the picture has a frame of that name with that class of colour. */
static bool has_frame(const char *text, const char *name, const char *colour) {
    char title[80], class[24];
    snprintf(title, sizeof title, "<title>%s (", name);
    snprintf(class, sizeof class, "<path class=\"%s\"", colour);
    const char *at = strstr(text, title), *path = NULL;
    for (const char *next = text; at && (next = strstr(next, "<path ")) && next < at; next++)
        path = next;
    return path && strncmp(path, class, strlen(class)) == 0;
}

TEST(draw_difference_of_two_builds_has_the_known_answer) {
    char *text = versions(SONDE_FORMAT_SVG_FLAMEGRAPH, false, false);
    CHECK(strstr(text, "<title>server, CPU, difference</title>") != NULL);
    CHECK(strstr(text, ">Base: capture 6, 2025-11-21 04:40:00 UTC, 10 s, total 10.10 s<") != NULL);
    CHECK(strstr(text, ">New: capture 7, 2025-11-21 04:40:00 UTC, 10 s, total 12.12 s<") != NULL);
    CHECK(strstr(text, ">larger share than in the base<") != NULL);
    CHECK(has_frame(text, "main", "W0") && has_frame(text, "handle", "W0"));
    CHECK(has_frame(text, "parse_header", "RC") && has_frame(text, "verify", "RD"));
    /* Of 30 to 25 % ± 3.8, 1 % is certain; of 10 to 8.3 % ± 2.4, nothing is. */
    CHECK(has_frame(text, "pack", "BA") && has_frame(text, "checksum", "W0"));
    CHECK(strstr(text, ">within noise, or unchanged<") != NULL);
    CHECK(strstr(text, "<title>log_line") == NULL);
    CHECK(strstr(text, ">2.02 s (20.0 %)</text>") != NULL);
    CHECK(strstr(text, ">log_line <tspan class=\"sub\">← handle ← main") != NULL);
    CHECK(strstr(text, "[libpack.so.1") == NULL && strstr(text, "more</text>") == NULL);
    free(text);
}

/* Only parse_header and verify certainly grew. */
TEST(draw_pictures_of_growth_are_grey_where_it_may_be_noise) {
    char *text = versions(SONDE_FORMAT_SVG_FLAMEGRAPH, true, false);
    CHECK(strstr(text, "; grey is within noise") != NULL);
    CHECK(has_frame(text, "main", "W0") && has_frame(text, "handle", "W0"));
    CHECK(!has_frame(text, "parse_header", "W0") && !has_frame(text, "verify", "W0"));
    free(text);
    text = versions(SONDE_FORMAT_SVG_CALLGRAPH, false, false);
    const char *node = strstr(text, "<title>handle ("), *box = strstr(text, "<title>verify (");
    CHECK(node && strncmp(strstr(node, "<path class=\""), "<path class=\"W0\"", 16) == 0);
    CHECK(box && strncmp(strstr(box, "<path class=\""), "<path class=\"W0\"", 16) != 0);
    free(text);
}

#define VERSIONS_HEAD                                                \
    "Difference: server, CPU\n"                                      \
    "Base: capture 6, 2025-11-21 04:40:00 UTC, 10 s, total 10.10s\n" \
    "New: capture 7, 2025-11-21 04:40:00 UTC, 10 s, total 12.12s\n"  \
    "Change: +2.02s (+20.0 % of the base)\n"                         \
    "# flat% and cum% are changes of the share of the total\n"       \
    "# ± is the 95 % interval; ~ is within noise, ? has too few samples\n"
#define CAUSES                                                          \
    "# explained by parse_header: +20.0 % ± 4.0 ← handle ← main\n" \
    "# explained by log_line: -20.0 % ± 2.5 ← handle ← main\n"     \
    "# explained by verify: +8.3 % ± 1.6 ← handle ← main\n"
#define COLUMNS "       flat             flat%          cum              cum%   name\n"

/* Of 1,000 samples 300, then of 1,200 samples 600: 20 % ±
 * 1.96 * sqrt(0.3 * 0.7 / 1000 + 0.5 * 0.5 / 1200). pack has 300 both times, so only its share is
 * smaller and it explains nothing. */
TEST(draw_difference_as_a_table_has_intervals_of_all_changes) {
    char *text = versions(SONDE_FORMAT_TEXT_TOP, false, false);
    CHECK_STR(text, VERSIONS_HEAD CAUSES COLUMNS
              "     -2.02s     -20.0 % ± 2.5       -2.02s     -20.0 % ± 2.5   log_line\n"
              "     +3.03s     +20.0 % ± 4.0       +3.03s     +20.0 % ± 4.0   parse_header\n"
              "     +1.01s      +8.3 % ± 1.6       +1.01s      +8.3 % ± 1.6   verify\n"
              "          0      -5.0 % ± 3.7            0      -5.0 % ± 3.7   pack\n"
              "          0      -1.7 % ± 2.4 ~          0      -1.7 % ± 2.4 ~ [libpack.so.2]\n"
              "          0      -1.7 % ± 2.4 ~          0      -1.7 % ± 2.4 ~ checksum\n"
              "          0                         +2.02s      +0.0 % ± 0.4 ~ handle\n"
              "          0                         +2.02s      +0.0 % ± 0.4 ~ main\n");
    free(text);
    text = versions(SONDE_FORMAT_TEXT_TOP, true, false);
    const char *rows = strstr(text, COLUMNS);
    CHECK(rows && strstr(rows, " parse_header\n") && strstr(rows, " verify\n"));
    CHECK(strstr(rows, " log_line\n") == NULL && strstr(rows, " pack\n") == NULL);
    free(text);
    text = versions(SONDE_FORMAT_TEXT_TOP, false, true);
    CHECK(strstr(text, "# the new values are scaled to the base's total\n") != NULL);
    CHECK(strstr(text, "+2020.20ms     +20.0 % ± 4.0   parse_header\n") != NULL);
    free(text);
}

TEST(draw_difference_for_other_readers_has_what_is_gone_as_negative_rows) {
    char *text = versions(SONDE_FORMAT_COLLAPSED, false, false);
    CHECK_STR(text, "main;handle;log_line -200\n"
                    "main;handle;parse_header 300\n"
                    "main;handle;verify 100\n");
    free(text);
    text = versions(SONDE_FORMAT_MARKDOWN, false, false);
    CHECK(strstr(text, "# Profile: `server, CPU, difference`\n\n- base: `capture 6, ") == text);
    CHECK(strstr(text, "\n- percentages below are of the base's total\n") != NULL);
    CHECK(strstr(text, "\n2. -2.02 s (-20.0 %): `main` → `handle` → `log_line`\n") != NULL);
    free(text);
    text = versions(SONDE_FORMAT_GRAFANA, false, false);
    CHECK(strstr(text, "\"value\":2020202000,\"self\":2020202000,\"valueRight\":0,\"selfRight\":0,"
                       "\"label\":\"log_line\"") != NULL);
    free(text);
}

/* A heap that grew is red where it grew, and what did not change is not blue. */
TEST(draw_difference_of_memory_compares_bytes) {
    struct sonde_profile *base = fixture("trimmed"), *now = fixture("grown");
    const struct sonde_draw_diff diff = {.base = base, .now = now};
    const struct sonde_draw_options options = {0};
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw_difference(&diff, SONDE_FORMAT_SVG_FLAMEGRAPH, &options, &out, NULL), ==,
              SONDE_OK);
    CHECK(has_frame(out.data, "all", "RC") && has_frame(out.data, "grow_table", "RD"));
    CHECK(has_frame(out.data, "insert&lt;Key&gt;", "BA")); /* lost the library's megabyte */
    CHECK(has_frame(out.data, "[allocator]", "W0"));
    CHECK(strstr(out.data, ">more bytes than in the base<") != NULL);
    CHECK(strstr(out.data, ">Change: +55.02 MiB (+107.5 % of the base)<") != NULL);
    CHECK(strstr(out.data, "data-b=\"29.66 MiB (+56.02 MiB)\"><title>grow_table (") != NULL);
    sonde_buf_finish(&out);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
}

TEST(draw_difference_cannot_hide_idle_threads) {
    static const enum sonde_format formats[] = {SONDE_FORMAT_SVG_FLAMEGRAPH, SONDE_FORMAT_TEXT_TOP};
    struct sonde_profile *profile = fixture("server");
    const struct sonde_draw_diff diff = {.base = profile, .now = profile};
    const struct sonde_draw_options options = {.hide_idle = true};
    struct sonde_buf out = {0};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        struct sonde_diag diag = {0};
        CHECK_INT(sonde_draw_difference(&diff, formats[i], &options, &out, &diag), ==,
                  SONDE_INVALID_ARGUMENT);
        CHECK_STR(diag.text, "hide_idle: idle threads cannot be hidden in a difference");
    }
    CHECK_INT(out.len, ==, 0);
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
}

TEST(draw_difference_from_something_to_nothing_lists_what_is_gone) {
    struct sonde_profile *base = fixture("server"), *now = fixture("empty");
    const struct sonde_draw_diff diff = {.base = base, .now = now};
    const struct sonde_draw_options options = {0};
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw_difference(&diff, SONDE_FORMAT_SVG_FLAMEGRAPH, &options, &out, NULL), ==,
              SONDE_OK);
    CHECK(strstr(out.data, ">no samples<") && strstr(out.data, ">8.41 s (85.7 %)</text>"));
    sonde_buf_finish(&out);
    CHECK_INT(sonde_draw_difference(&diff, SONDE_FORMAT_TEXT_TOP, &options, &out, NULL), ==,
              SONDE_OK);
    CHECK(strstr(out.data, "Change: -9.82s (-100.0 % of the base)\n") != NULL);
    sonde_buf_finish(&out);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
}

/* A profile of that many functions, each of which has a thousand times its number as value. */
static struct sonde_profile *functions(int count) {
    const struct sonde_value_type type = {"samples", "count"};
    struct sonde_profile *profile = sonde_profile_create(&type, 1, 0);
    for (int64_t i = 1; i <= count; i++) {
        const int64_t value = 1000 * i;
        char name[16];
        struct sonde_function function = {0};
        struct sonde_line line = {0};
        struct sonde_location location = {.line_count = 1, .lines = &line};
        uint32_t id;
        snprintf(name, sizeof name, "f%d", (int)i);
        CHECK_INT(sonde_profile_string(profile, name, strlen(name), &function.name), ==, SONDE_OK);
        CHECK_INT(sonde_profile_add_function(profile, &function, &line.function), ==, SONDE_OK);
        CHECK_INT(sonde_profile_add_location(profile, &location, &id), ==, SONDE_OK);
        const struct sonde_sample sample = {
            .locations = &id, .location_count = 1, .values = &value};
        CHECK_INT(sonde_profile_add_sample(profile, &sample), ==, SONDE_OK);
    }
    return profile;
}

TEST(draw_difference_lists_only_the_largest_of_what_is_gone) {
    struct sonde_profile *base = functions(20), *now = functions(5);
    const struct sonde_draw_diff diff = {.base = base, .now = now};
    const struct sonde_draw_options options = {0};
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw_difference(&diff, SONDE_FORMAT_SVG_FLAMEGRAPH, &options, &out, NULL), ==,
              SONDE_OK);
    const char *gone = strstr(out.data, ">Only in the base");
    const char *end = gone ? strstr(gone, "</g>") : NULL;
    size_t rows = 0;
    for (const char *at = gone; at && (at = strstr(at, "class=\"BD\"")) && at < end; at++)
        rows++;
    CHECK_INT(rows, ==, 12);
    CHECK(gone && strstr(gone, ">f20 <tspan") && strstr(gone, ">f10 <tspan"));
    CHECK(gone && strstr(gone, ">30,000 (14.3 %)</text>") && strstr(gone, ">4 more <tspan"));
    sonde_buf_finish(&out);
    sonde_profile_destroy(base);
    sonde_profile_destroy(now);
}
