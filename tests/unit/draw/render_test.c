/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/render.h"
#include "tests/unit/check.h"
#include "tests/unit/draw/fixture.h"

#include <stdlib.h>

static char text[512];

static const char *taken(struct sonde_buf *buf) {
    memcpy(text, sonde_buf_slice(buf).data, buf->len + 1);
    sonde_buf_finish(buf);
    return text;
}

static const char *value(int64_t number, const char *unit) {
    struct sonde_buf out = {0};
    draw_value(&out, number, unit);
    return taken(&out);
}

static const char *short_value(int64_t number, const char *unit) {
    struct sonde_buf out = {0};
    draw_short_value(&out, number, unit);
    return taken(&out);
}

static const char *xml(const char *words, size_t max) {
    struct sonde_buf out = {0};
    draw_xml(&out, words, max);
    sonde_buf_puts(&out, "");
    return out.data ? taken(&out) : "";
}

static const char *json(const char *words) {
    struct sonde_buf out = {0};
    draw_json(&out, words);
    return taken(&out);
}

TEST(render_groups_counts_by_thousands) {
    CHECK_STR(value(0, "count"), "0");
    CHECK_STR(value(999, "count"), "999");
    CHECK_STR(value(1234567, "count"), "1,234,567");
    CHECK_STR(value(-1000, "count"), "-1,000");
    CHECK_STR(value(INT64_MIN, "count"), "-9,223,372,036,854,775,808");
}

TEST(render_scales_times_and_sizes) {
    CHECK_STR(value(999, "nanoseconds"), "999 ns");
    CHECK_STR(value(1500, "nanoseconds"), "1.50 µs");
    CHECK_STR(value(10101010, "nanoseconds"), "10.10 ms");
    CHECK_STR(value(90000000000, "nanoseconds"), "1.50 min");
    CHECK_STR(value(2048, "bytes"), "2.00 KiB");
    CHECK_STR(value(-5 * (1 << 20), "bytes"), "-5.00 MiB");
    CHECK_STR(short_value(4040400000, "nanoseconds"), "4.04s");
    CHECK_STR(short_value(0, "nanoseconds"), "0");
    CHECK_STR(short_value(1536, "bytes"), "1.50KiB");
    CHECK_STR(short_value(12345, "count"), "12345");
}

static const char *column(int64_t smallest, int64_t largest, const char *unit) {
    return draw_column_unit(smallest, largest, unit).word;
}

/* Rows of a microsecond made a table of 79 hours one of microseconds. */
TEST(render_chooses_a_unit_in_which_the_largest_value_of_a_column_fits) {
    CHECK_STR(column(2500000, 9000000000, "nanoseconds"), "ms");
    CHECK_STR(column(10000, 48394460, "nanoseconds"), "ms");
    CHECK_STR(column(200000, 9990000, "nanoseconds"), "us");
    CHECK_STR(column(300000, 20000000, "nanoseconds"), "ms");
    CHECK_STR(column(1000, 285959828510000, "nanoseconds"), "mins");
    CHECK_STR(column(1, INT64_MAX, "nanoseconds"), "mins");
    CHECK_STR(column(0, 0, "nanoseconds"), "");
    CHECK_STR(column(16, 20 << 20, "bytes"), "MiB");
    CHECK_STR(column(1, 1 << 30, "count"), "");
}

TEST(render_percent_of_zero_is_zero) {
    CHECK_NEAR(draw_percent(1, 0), 0, 0);
    CHECK_NEAR(draw_percent(1, 8), 12.5, 1e-9);
}

TEST(render_xml_escapes_markup_and_replaces_what_xml_forbids) {
    CHECK_STR(xml("a<b>&\"'", 0), "a&lt;b&gt;&amp;&quot;&#39;");
    CHECK_STR(xml("]]>", 0), "]]&gt;");
    CHECK_STR(xml("\x01\x7f|\xff|\xef\xbf\xbe|\xe2\x80\xae", 0),
              "\xef\xbf\xbd\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd|\xef\xbf\xbd");
    CHECK_STR(xml("\xf0\x9f\x94\xa5 é", 0), "\xf0\x9f\x94\xa5 é");
}

TEST(render_xml_cuts_at_characters_not_bytes) {
    CHECK_STR(xml("ééééé", 5), "ééééé");
    CHECK_STR(xml("éééééé", 5), "éééé…");
    CHECK_STR(xml("<<<<", 3), "&lt;&lt;…");
}

TEST(render_json_escapes_quotes_controls_and_the_start_of_tags) {
    CHECK_STR(json("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    CHECK_STR(json("</script>"), "\"\\u003c/script>\"");
    CHECK_STR(json("\xff\xe2\x80\xa8"), "\"\\ufffd\\u2028\"");
}

TEST(control_characters_and_marks_of_direction_do_not_leave_in_documents) {
    CHECK_STR(xml("a\xc2\x9b\xe2\x80\x8f\xd8\x9cü", 0), "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdü");
    CHECK_STR(json("a\xc2\x9b\xe2\x80\xae\xe2\x81\xa6ü"), "\"a\\u009b\\u202e\\u2066ü\"");
}

/* ---- One function ---- */

static char *peek(const char *fixture_name, const char *function, sonde_err expected,
                  struct sonde_diag *diag) {
    struct sonde_profile *profile = fixture(fixture_name);
    struct sonde_draw_options options = {.function = function};
    struct sonde_buf out = {0};
    CHECK_INT(sonde_draw(profile, SONDE_FORMAT_TEXT_TOP, &options, &out, diag), ==, expected);
    sonde_profile_destroy(profile);
    sonde_buf_puts(&out, "");
    return out.data;
}

static void check_peek(const char *function, const char *const *parts) {
    char *table = peek("server", function, SONDE_OK, NULL);
    for (; *parts; parts++)
        if (!strstr(table, *parts))
            check_fail(__FILE__, __LINE__, "%s lacks %s:\n%s", function, *parts, table);
    free(table);
}

#define CHECK_PEEK(function, ...) check_peek(function, (const char *const[]){__VA_ARGS__, NULL})

/* The fixture has run_command → get_key → run_command → get_key three times. */
TEST(recursion_counts_once_and_callers_add_up_to_the_total) {
    CHECK_PEEK("run_command", "total          583   60.0% ±3.1  of the profile\n",
               "itself          60    6.2% ±1.5  of the profile\n",
               "total:\n       583  100.0% ±0.3   parse_header  [server]\n",
               "total:\n       523   89.7% ±2.5   get_key  [server]\n\n",
               "Heaviest of 1 call paths");
    CHECK_PEEK(
        "get_key", "total          523 ", "itself         123 ",
        "total:\n       523  100.0% ±0.4   run_command  [server]\n",
        "total:\n       400   76.5% ±3.6   copy_bytes  [libfixture.so.1]\n         3    0.6% ±0.7  "
        " run_command  [server]\n");
}

TEST(a_pattern_means_all_functions_that_match) {
    CHECK_PEEK("copy_*", "total          449 ", "       400   89.1% ±2.9   get_key",
               "        40    8.9% ±2.6   background_jobs", "         9    2.0% ±1.4   [truncated]",
               "none\n", "Heaviest of 3 call paths");
    CHECK_PEEK("*_*y*", "Function:  read_query", "     and:  get_key", "total          882 ",
               "itself         602 ");
    CHECK_PEEK("main", "(no caller)");
}

TEST(the_root_calls_the_outermost_functions) {
    CHECK_PEEK("all", "total          972  100.0%", "itself           0    0.0%",
               "total:\n       833   85.7% ±2.2   main  [server]\n       130   13.4% ±2.1   "
               "thread_start  [libfixture.so.1]\n         9    0.9% ±0.6   [truncated]\n");
}

TEST(only_its_exact_name_means_the_root) {
    CHECK_PEEK("*all*", "Callers, with their share");
    CHECK_PEEK("*a*", "Callers, with their share", "(no caller)");
}

TEST(a_function_that_does_not_exist_is_refused_with_similar_names) {
    struct sonde_diag diag = {0};
    free(peek("server", "KEY", SONDE_NOT_FOUND, &diag));
    CHECK_STR(diag.text, "the profile has no function \"KEY\"; similar: get_key");
    free(peek("server", "*KEY*k", SONDE_NOT_FOUND, &diag));
    CHECK_STR(diag.text, "the profile has no function \"*KEY*k\"; similar: get_key");
    free(peek("server", "nothing", SONDE_NOT_FOUND, &diag));
    CHECK_STR(diag.text, "the profile has no function \"nothing\"; * stands for any characters");
    char *table = peek("empty", "main", SONDE_OK, NULL);
    CHECK(strstr(table, "no samples"));
    free(table);
}
