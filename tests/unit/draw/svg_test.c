/* SPDX-License-Identifier: Apache-2.0
 *
 * What documents_test cannot check from outside: options, and that drawing is deterministic. */
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <stdio.h>
#include <stdlib.h>

static char *drawn(const char *name, const struct sonde_draw_options *options) {
    struct sonde_profile *profile = fixture(name);
    struct sonde_buf out = {0};
    size_t len;
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_SVG_FLAMEGRAPH, options, &out, NULL), ==, SONDE_OK);
    sonde_profile_destroy(profile);
    return sonde_buf_take(&out, &len);
}

static size_t count(const char *text, const char *part) {
    size_t found = 0, len = strlen(part);
    for (; *text; text++) /* strstr would measure the rest each time under a sanitizer */
        found += *text == *part && strncmp(text, part, len) == 0;
    return found;
}

TEST(svg_of_equal_profiles_is_equal) {
    char *first = drawn("large", NULL), *second = drawn("large", NULL);
    CHECK(strcmp(first, second) == 0);
    free(first);
    free(second);
}

TEST(svg_has_the_given_title_and_subtitle) {
    struct sonde_draw_options options = {.title = "redis <1>", .subtitle = "pid 4711, 10 s"};
    char *text = drawn("server", &options);
    CHECK(strstr(text, "<title>redis &lt;1&gt;</title>") != NULL);
    CHECK(strstr(text, "pid 4711, 10 s") != NULL);
    CHECK(strstr(text, "dithered") == NULL);
    free(text);
}

TEST(svg_takes_its_default_subtitle_from_the_profile) {
    char *text = drawn("server", NULL);
    CHECK(strstr(text, ">972 samples · shares are exact to about ± 3 points · clock: perf ") !=
          NULL);
    free(text);
}

TEST(svg_says_in_its_title_what_was_measured_how_and_when) {
    char *text = drawn("server", NULL);
    CHECK(strstr(text, "<title>server, CPU, 10 s at 99 Hz, 2025-11-21 04:40:00 UTC</title>") !=
          NULL);
    free(text);
    struct sonde_draw_options options = {.type = "inuse_objects"};
    text = drawn("trimmed", &options);
    CHECK(strstr(text, "<title>server, live objects, 2025-11-21 04:40:00 UTC</title>") != NULL);
    free(text);
    options = (struct sonde_draw_options){.title = "mine"};
    text = drawn("server", &options);
    CHECK(strstr(text, "<title>mine</title>") != NULL);
    CHECK(strstr(text, ">972 samples · server, CPU, 10 s at 99 Hz, 2025-11-21 04:40:00 UTC · ") !=
          NULL);
    free(text);
}

/* The name of a process may differ from that of its file, and may contain what follows it. */
TEST(svg_is_titled_with_the_target_in_the_comments) {
    const char *const rows[][2] = {
        {"target: redis-server, pid 4711", "redis-server"},
        {"target: a, pid 1, pid 2, ended during the capture", "a, pid 1"},
        {"target: a, pid 1, called exec during the capture", "a"},
        {"target: @all:redis", "all processes named redis"},
        {"target: @all:4711", "process 4711 and its children"},
        {"target: @all:4711 (make), ended during the capture", "make and its children"},
        {"target: @all:4711 (a (b))", "a (b) and its children"},
        {"target: @all:4711 (", "all processes named 4711 ("},
        {"target: @all", "all processes"},
        {"target: @all:", "@all:"},
        {"target: @allure", "@allure"},
        {"service: checkout", "checkout"},
        {"target: ", "server"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct sonde_profile *profile = fixture("server");
        struct sonde_buf out = {0};
        char wanted[80];
        CHECK_INT(sonde_profile_add_comment(profile, rows[i][0]), ==, SONDE_OK);
        CHECK_INT(sonde_draw(profile, SONDE_FORMAT_SVG_CALLGRAPH, NULL, &out, NULL), ==, SONDE_OK);
        snprintf(wanted, sizeof wanted, "<title>%s, CPU, 10 s", rows[i][1]);
        CHECK(strstr(out.data, wanted) != NULL);
        sonde_buf_finish(&out);
        sonde_profile_destroy(profile);
    }
}

TEST(svg_with_a_larger_minimum_share_folds_more) {
    struct sonde_draw_options options = {.minimum_share = 0.1};
    char *all = drawn("server", NULL), *few = drawn("server", &options);
    CHECK_INT(count(few, "<path"), <, count(all, "<path"));
    CHECK_INT(count(few, "<title>(9 more)"), ==, 0);
    CHECK(strstr(few, "frames below 10 % are merged") != NULL);
    free(all);
    free(few);
}

TEST(svg_has_a_thread_row_only_if_split) {
    struct sonde_draw_options options = {.split_threads = true};
    char *text = drawn("server", &options);
    CHECK(strstr(text, "<title>jobs (") != NULL);
    free(text);
    text = drawn("server", NULL);
    CHECK(strstr(text, "<title>jobs (") == NULL);
    CHECK(strstr(text, "<title>main (") != NULL);
    free(text);
}

TEST(svg_of_a_large_profile_stays_in_bounds) {
    struct sonde_profile *profile = fixture("large");
    struct sonde_draw_options options = {.minimum_share = 1e-9};
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_SVG_FLAMEGRAPH, &options, &out, NULL), ==, SONDE_OK);
    CHECK_INT(count(out.data, "<path"), <=, 100000);
    sonde_buf_finish(&out);
    sonde_profile_destroy(profile);
}

TEST(svg_hashes_are_source_expressions) {
    CHECK_INT(strlen(sonde_draw_svg_script_hash()), ==, strlen("'sha256-'") + 44);
    CHECK(strncmp(sonde_draw_svg_script_hash(), "'sha256-", 8) == 0);
    CHECK(strncmp(sonde_draw_svg_style_hash(), "'sha256-", 8) == 0);
    CHECK(strcmp(sonde_draw_svg_style_hash(), sonde_draw_svg_script_hash()) != 0);
}
