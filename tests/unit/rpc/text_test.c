/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/base/text.h"
#include "tests/unit/check.h"

TEST(text_that_is_utf8_is_unchanged) {
    struct sonde_arena arena = {0};
    const char *text = "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80";
    CHECK(rpc_text(&arena, text) == text);
    CHECK_STR(rpc_text(&arena, NULL), "");
    sonde_arena_finish(&arena);
}

TEST(bytes_that_are_not_utf8_are_escaped) {
    struct sonde_arena arena = {0};
    CHECK_STR(rpc_text(&arena, "a\xff\x62"), "a\\xffb");
    CHECK_STR(rpc_text(&arena, "\xc0\xaf"), "\\xc0\\xaf");
    CHECK_STR(rpc_text(&arena, "\xed\xa0\x80"), "\\xed\\xa0\\x80");
    CHECK_STR(rpc_text(&arena, "\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
    CHECK_STR(rpc_text(&arena, "end\xe2\x82"), "end\\xe2\\x82");
    sonde_arena_finish(&arena);
}

TEST(text_is_cut_between_characters) {
    char out[6];
    rpc_text_copy(out, sizeof out, "abcd\xc3\xbc");
    CHECK_STR(out, "abcd");
    rpc_text_copy(out, sizeof out, "abc\xc3\xbcz");
    CHECK_STR(out, "abc\xc3\xbc");
    rpc_text_copy(out, sizeof out, "ab\xff");
    CHECK_STR(out, "ab");
}
