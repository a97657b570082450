/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/utf8.h"
#include "tests/unit/check.h"

#include <string.h>

static const char *clean(const char *bytes, size_t len) {
    static char text[256];
    struct sonde_buf out = {0};
    sonde_utf8_clean(&out, bytes, len);
    memcpy(text, sonde_buf_slice(&out).data, out.len + 1);
    sonde_buf_finish(&out);
    return text;
}

#define CLEAN(literal) clean(literal, sizeof literal - 1)

TEST(utf8_clean_copies_valid_text) {
    CHECK_STR(CLEAN("std::vector<int>::push_back(int&&)"), "std::vector<int>::push_back(int&&)");
    CHECK_STR(CLEAN("größe 値 \xf0\x9f\x94\xa5"), "größe 値 \xf0\x9f\x94\xa5");
    CHECK(sonde_utf8_is_clean("größe", 7));
}

TEST(utf8_escapes_bytes_that_are_not_utf8) {
    CHECK_STR(CLEAN("a\xff"
                    "b"),
              "a\\xffb");
    CHECK_STR(CLEAN("\xc0\x80"), "\\xc0\\x80");                   /* overlong NUL */
    CHECK_STR(CLEAN("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");          /* overlong slash */
    CHECK_STR(CLEAN("\xed\xa0\x80"), "\\xed\\xa0\\x80");          /* surrogate */
    CHECK_STR(CLEAN("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80"); /* past U+10FFFF */
    CHECK_STR(CLEAN("\xe2\x82"), "\\xe2\\x82");                   /* cut */
    CHECK_STR(CLEAN("\x80"), "\\x80");
}

TEST(utf8_turns_controls_into_spaces) {
    CHECK_STR(CLEAN("a\tb\nc\0d\x7f"
                    "e"),
              "a b c d e");
    CHECK_STR(CLEAN("\xc2\x85|\xc2\x9b"), " | "); /* C1 */
    CHECK(!sonde_utf8_is_clean("a\n", 2));
}

TEST(utf8_cleaning_twice_changes_nothing) {
    char bytes[256];
    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    struct sonde_buf once = {0}, twice = {0};
    sonde_utf8_clean(&once, bytes, sizeof bytes);
    CHECK(sonde_utf8_is_clean(once.data, once.len));
    sonde_utf8_clean(&twice, once.data, once.len);
    CHECK_STR(twice.data, once.data);
    sonde_buf_finish(&once);
    sonde_buf_finish(&twice);
}

TEST(utf8_is_valid_with_control_characters_and_without_stray_bytes) {
    CHECK(sonde_utf8_is_valid("", 0));
    CHECK(sonde_utf8_is_valid("a\n\0\x7fgr\xc3\xb6\xc3\x9f"
                              "e\xc2\x85",
                              13));
    CHECK(!sonde_utf8_is_valid("a\xc3", 2));
    CHECK(!sonde_utf8_is_valid("\xed\xa0\x80", 3));
}

TEST(utf8_characters_are_counted_by_their_first_bytes) {
    static const char text[] = "gr\xc3\xb6\xc3\x9f"
                               "e \xf0\x9f\x94\xa5";
    int count = 0;
    for (const char *at = text; *at; at++)
        count += !sonde_utf8_continues(*at);
    CHECK_INT(count, ==, 7);
}

TEST(c1_controls_and_bidirectional_marks_are_escaped_for_terminals) {
    struct sonde_buf out = {0};
    const char *hostile = "a\xc2\x9b"
                          "31m\x1b[2J\xe2\x80\xaez\xff\xe2\x81\xa6ü";
    sonde_utf8_escape(&out, hostile, strlen(hostile));
    sonde_buf_putc(&out, 0);
    CHECK_STR(out.data, "a\\xc2\\x9b31m\\x1b[2J\\xe2\\x80\\xaez\\xff\\xe2\\x81\\xa6ü");
    sonde_buf_finish(&out);
}

TEST(hostile_bytes_of_a_string_are_replaced_in_place) {
    char text[] = "a\xc2\x85\nb\xe2\x80\xae\xc3\xbc";
    sonde_utf8_replace(text, '?');
    CHECK_STR(text, "a???b???\xc3\xbc");
}

/* Each character with what becomes of it; the places that use these functions need no tables. */
TEST(every_control_character_is_replaced_and_found_and_nothing_else) {
    const struct {
        const char *text, *put;
        bool is_control;
    } cases[] = {
        {"a", "a", false},
        {" ", " ", false},
        {"\n", "?", true},
        {"\x1b", "?", true},
        {"\x7f", "?", true},
        {"\xc2\x80", "??", true}, /* U+0080 */
        {"\xc2\x9b", "??", true}, /* CSI */
        {"\xc2\x9f", "??", true},
        {"\xc2\xa0", "\xc2\xa0", false},
        {"\xd8\x9c", "??", true}, /* U+061C */
        {"\xe2\x80\x8e", "???", true},
        {"\xe2\x80\x8f", "???", true},
        {"\xe2\x80\xa7", "\xe2\x80\xa7", false},
        {"\xe2\x80\xa8", "???", true}, /* U+2028 */
        {"\xe2\x80\xae", "???", true}, /* U+202E */
        {"\xe2\x80\xaf", "\xe2\x80\xaf", false},
        {"\xe2\x81\xa6", "???", true}, /* U+2066 */
        {"\xe2\x81\xa9", "???", true},
        {"\xf0\x9f\x94\xa5", "\xf0\x9f\x94\xa5", false},
        {"\x9b", "?", false}, /* invalid */
        {"\xe2\x80", "??", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct sonde_buf out = {0};
        size_t len = strlen(cases[i].text);
        sonde_utf8_put(&out, cases[i].text, '?');
        CHECK_STR(out.data, cases[i].put);
        CHECK_INT(sonde_utf8_has_control(cases[i].text, len), ==, cases[i].is_control);
        CHECK_INT(sonde_utf8_printable(cases[i].text, len) > 0, ==, cases[i].put[0] != '?');
        sonde_buf_finish(&out);
    }
}
