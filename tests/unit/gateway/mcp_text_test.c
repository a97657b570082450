/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/mcp/text.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <string.h>

static const char word[] = "0123456789abcdef";
static struct mcp_text text;
static struct sonde_buf json;

static const char *written(void) {
    sonde_buf_finish(&json);
    mcp_text_write(&text, word, &json);
    mcp_text_finish(&text);
    text = (struct mcp_text){0};
    return json.data;
}

static void add(const char *line) {
    mcp_text_add(&text, line, strlen(line));
}

#define OPEN  "\\u003cdata 0123456789abcdef\\u003e\\n"
#define CLOSE "\\u003c/data 0123456789abcdef\\u003e\\n"

TEST(data_is_between_two_lines_with_the_word) {
    sonde_buf_puts(&text.head, "head\n");
    sonde_buf_puts(&text.tail, "tail\n");
    add("one\ntwo\n");
    CHECK_STR(written(), "\"head\\n" OPEN "one\\ntwo\\n" CLOSE "tail\\n\"");
    sonde_buf_puts(&text.head, "head\n");
    CHECK_STR(written(), "\"head\\n\"");
}

TEST(control_characters_and_line_ends_of_names_become_spaces) {
    mcp_text_put_name(&text,
                      "a\nb\x1b[31m\xe2\x80\xae"
                      "c\xff",
                      100);
    CHECK_STR(written(), "\"" OPEN "a b [31m c\\\\xff\\n" CLOSE "\"");
}

TEST(invisible_characters_are_written_as_numbers) {
    mcp_text_put_name(
        &text, "a\xf3\xa0\x81\x81\xe2\x80\x8b\xef\xbb\xbf\xe2\x81\xa0\xef\xb8\x8f\xc3\xa9\xe2\x80",
        100);
    add("\nb\xf3\xa0\x84\x80\n");
    CHECK_STR(written(), "\"" OPEN "a\\\\u{e0041}\\\\u{200b}\\\\u{feff}\\\\u{2060}\\\\u{fe0f}"
                         "\xc3\xa9\\\\xe2\\\\x80\\nb\\\\u{e0100}\\n" CLOSE "\"");
}

TEST(a_name_is_cut_between_characters) {
    mcp_text_put_name(&text, "ab\xc3\xa9", 3);
    CHECK_STR(written(), "\"" OPEN "ab\xe2\x80\xa6\\n" CLOSE "\"");
}

TEST(a_long_line_is_cut) {
    char line[MCP_LINE_BYTES + 2];
    memset(line, 'x', sizeof line);
    mcp_text_add(&text, line, MCP_LINE_BYTES + 1);
    add("\nend\n");
    const char *whole = written();
    CHECK(strstr(whole, "xxx\xe2\x80\xa6\\nend\\n"));
    CHECK_INT(strspn(strchr(whole, 'x'), "x"), ==, MCP_LINE_BYTES);
}

/* Quotes take two bytes of JSON, control characters six. */
TEST(an_answer_has_at_most_8_kb_and_says_what_is_left_out) {
    for (int i = 0; i < 1000; i++)
        add("\"\"\"\"\"\"\"\"\"\"\"\"\"\"\"<<<<\n");
    sonde_buf_puts(&text.head, "head\n");
    const char *whole = written();
    CHECK_INT(json.len, <=, MCP_TEXT_BYTES);
    CHECK_INT(json.len, >, MCP_TEXT_BYTES / 2);
    int kept = 0, left = 0;
    for (const char *at = whole; (at = strstr(at, "\\u003c\\n")); at++)
        kept++;
    const char *notice = strstr(whole, CLOSE);
    CHECK(notice && sscanf(notice + strlen(CLOSE), "%d more lines are left out", &left) == 1);
    CHECK_INT(kept + left, ==, 1000);
}

TEST(lines_beyond_what_is_kept_are_counted) {
    int total = 0, left = 0;
    char line[101];
    memset(line, 'y', 99);
    line[99] = '\n';
    line[100] = 0;
    for (; total < 2000; total++)
        add(line);
    CHECK_INT(text.data.len, ==, MCP_KEPT_BYTES);
    const char *whole = written(), *notice = strstr(whole, CLOSE);
    int kept = 0;
    for (const char *at = whole; (at = strstr(at, "y\\n")); at++)
        kept++;
    CHECK(notice && sscanf(notice + strlen(CLOSE), "%d", &left) == 1);
    CHECK_INT(kept + left, ==, 2000);
}

TEST(words_differ) {
    char one[MCP_WORD_SIZE], other[MCP_WORD_SIZE];
    mcp_text_word(one);
    mcp_text_word(other);
    CHECK_INT(strlen(one), ==, MCP_WORD_SIZE - 1);
    CHECK(strcmp(one, other) != 0);
}
