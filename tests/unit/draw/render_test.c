/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/render.h"
#include "tests/unit/check.h"

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
    CHECK_STR(short_value(1536, "bytes"), "1.50kB");
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
    CHECK_STR(column(16, 20 << 20, "bytes"), "MB");
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
