/* SPDX-License-Identifier: Apache-2.0 */
#include "service/elf/cursor.h"
#include "tests/unit/check.h"

/* A cursor over bytes that stay where they are. */
static struct cursor over(const void *bytes, size_t len) {
    static uint8_t copy[64];
    memcpy(copy, bytes, len);
    return (struct cursor){copy, copy + len, false};
}

#define OVER(text) over(text, sizeof text - 1)

TEST(cursor_reads_numbers_little_endian) {
    struct cursor cursor = OVER("\x01\x02\x03\xff\xff\x08\x07\x06\x05\x04\x03\x02\x01");
    CHECK_INT(cursor_u8(&cursor), ==, 1);
    CHECK_INT(cursor_uint(&cursor, 2), ==, 0x0302);
    CHECK_INT(cursor_sint(&cursor, 2), ==, -1);
    CHECK(cursor_uint(&cursor, 8) == 0x0102030405060708);
    CHECK_INT(cursor_left(&cursor), ==, 0);
    CHECK(!cursor.failed);
}

TEST(cursor_past_the_end_is_zero_and_failed_for_good) {
    struct cursor cursor = OVER("\x01\x02\x03");
    CHECK_INT(cursor_uint(&cursor, 4), ==, 0);
    CHECK(cursor.failed && cursor.at == cursor.end);
    CHECK_INT(cursor_u8(&cursor), ==, 0);
    CHECK_INT(cursor_uleb(&cursor), ==, 0);
    CHECK_INT(cursor_sleb(&cursor), ==, 0);
    CHECK_STR(cursor_text(&cursor), "");
    CHECK(cursor.failed);
    cursor = OVER("\x01");
    CHECK_INT(cursor_uint(&cursor, 9), ==, 0); /* wider than a number can be */
    CHECK(cursor.failed);
}

TEST(cursor_skips_to_the_end_and_no_further) {
    struct cursor cursor = OVER("abcd");
    cursor_skip(&cursor, 3);
    CHECK_INT(cursor_left(&cursor), ==, 1);
    cursor_skip(&cursor, 1);
    CHECK(!cursor.failed);
    cursor_skip(&cursor, 1);
    CHECK(cursor.failed);
    cursor = OVER("abcd");
    cursor_skip(&cursor, UINT64_MAX);
    CHECK(cursor.failed && cursor.at == cursor.end);
}

TEST(cursor_reads_unsigned_leb128) {
    struct cursor cursor = OVER("\x00\x7f\x80\x01\xe5\x8e\x26\x80\x80\x00");
    CHECK_INT(cursor_uleb(&cursor), ==, 0);
    CHECK_INT(cursor_uleb(&cursor), ==, 127);
    CHECK_INT(cursor_uleb(&cursor), ==, 128);
    CHECK_INT(cursor_uleb(&cursor), ==, 624485);
    CHECK_INT(cursor_uleb(&cursor), ==, 0); /* in more bytes than it needs */
    CHECK(!cursor.failed && cursor_left(&cursor) == 0);
}

TEST(cursor_reads_signed_leb128) {
    struct cursor cursor = OVER("\x00\x3f\x40\x7f\x80\x7f\xff\x00\xc0\xbb\x78");
    CHECK_INT(cursor_sleb(&cursor), ==, 0);
    CHECK_INT(cursor_sleb(&cursor), ==, 63);
    CHECK_INT(cursor_sleb(&cursor), ==, -64);
    CHECK_INT(cursor_sleb(&cursor), ==, -1);
    CHECK_INT(cursor_sleb(&cursor), ==, -128);
    CHECK_INT(cursor_sleb(&cursor), ==, 127);
    CHECK_INT(cursor_sleb(&cursor), ==, -123456);
    CHECK(!cursor.failed && cursor_left(&cursor) == 0);
}

TEST(cursor_drops_leb128_bits_past_the_64th) {
    struct cursor cursor = OVER("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"
                                "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"
                                "\x80\x80\x80\x80\x80\x80\x80\x80\x80\x7f");
    CHECK(cursor_uleb(&cursor) == UINT64_MAX);
    CHECK(cursor_uleb(&cursor) == UINT64_MAX);
    CHECK(cursor_sleb(&cursor) == INT64_MIN);
    CHECK(!cursor.failed && cursor_left(&cursor) == 0);
}

TEST(cursor_fails_at_a_leb128_number_without_an_end) {
    struct cursor cursor = OVER("\x85\x80");
    CHECK_INT(cursor_uleb(&cursor), ==, 0);
    CHECK(cursor.failed);
    cursor = OVER("\xff\xff");
    CHECK_INT(cursor_sleb(&cursor), ==, 0);
    CHECK(cursor.failed);
}

TEST(cursor_reads_texts_up_to_their_nul) {
    struct cursor cursor = OVER("zR\0\0abc");
    CHECK_STR(cursor_text(&cursor), "zR");
    CHECK_STR(cursor_text(&cursor), "");
    CHECK(!cursor.failed);
    CHECK_STR(cursor_text(&cursor), "");
    CHECK(cursor.failed && cursor.at == cursor.end);
}

TEST(cursor_recognises_64_bit_dwarf_by_its_length) {
    uint8_t offset_size;
    struct cursor cursor = OVER("\x10\x00\x00\x00\xff\xff\xff\xff\x10\x00\x00\x00\x01\x00\x00\x00"
                                "\xef\xff\xff\xff\xf0\xff\xff\xff");
    CHECK_INT(cursor_length(&cursor, &offset_size), ==, 16);
    CHECK_INT(offset_size, ==, 4);
    CHECK_INT(cursor_length(&cursor, &offset_size), ==, 0x100000010);
    CHECK_INT(offset_size, ==, 8);
    CHECK_INT(cursor_length(&cursor, &offset_size), ==, 0xffffffef);
    CHECK_INT(offset_size, ==, 4);
    CHECK(!cursor.failed);
    CHECK_INT(cursor_length(&cursor, &offset_size), ==, 0); /* reserved */
    CHECK(cursor.failed);
}

TEST(cursor_at_an_offset_stays_inside_the_bytes) {
    struct sonde_slice bytes = {"abcdef", 6};
    struct cursor cursor = cursor_at(bytes, 2, 3);
    CHECK(!cursor.failed && cursor_left(&cursor) == 3 && cursor_u8(&cursor) == 'c');
    cursor = cursor_at(bytes, 5, 100);
    CHECK(!cursor.failed && cursor_left(&cursor) == 1);
    cursor = cursor_at(bytes, 6, 1);
    CHECK(cursor.failed && cursor_left(&cursor) == 0);
    cursor = cursor_at(bytes, UINT64_MAX, 1);
    CHECK(cursor.failed);
}
