/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/symbol_body.h"

#include "tests/unit/check.h"

/* The addresses of a body in hex, joined by commas. */
static const char *addresses(const char *text, size_t len) {
    static struct sonde_buf out;
    struct sonde_slice body = {text, len};
    uint64_t address;
    sonde_buf_finish(&out);
    sonde_buf_puts(&out, "");
    while (symbol_body_next(&body, &address))
        sonde_buf_printf(&out, "%s%llx", out.len ? "," : "", (unsigned long long)address);
    return out.data;
}

#define ADDRESSES(text) addresses(text, sizeof text - 1)

TEST(addresses_come_in_the_order_of_the_body) {
    CHECK_STR(ADDRESSES("0x10+0x20"), "10,20");
    CHECK_STR(ADDRESSES("55d0c0a01234+0x1"), "55d0c0a01234,1");
    CHECK_STR(ADDRESSES("0x000055d0c0a01234"), "55d0c0a01234");
    CHECK_STR(ADDRESSES("0XABCdef"), "abcdef");
    CHECK_STR(ADDRESSES("0xffffffffffffffff"), "ffffffffffffffff");
}

TEST(spaces_and_empty_pieces_are_skipped) {
    CHECK_STR(ADDRESSES(""), "");
    CHECK_STR(ADDRESSES("+++"), "");
    CHECK_STR(ADDRESSES(" 0x10\r\n+\t0x20 +"), "10,20");
}

TEST(malformed_addresses_are_skipped) {
    CHECK_STR(ADDRESSES("0x+0x0+0+xyz+0x1g+0x10 0x20+0x30"), "30");
    CHECK_STR(ADDRESSES("0x10000000000000000+0x00000000000000000000000001"), "1");
    CHECK_STR(ADDRESSES("\xff\xfe+0x1\0+0x2"), "2");
    CHECK_STR(ADDRESSES("0x1234567890123456789012345678901234567890"), "");
}

static const char *name(const char *text) {
    static struct sonde_buf out;
    sonde_buf_finish(&out);
    symbol_body_append_name(&out, text);
    return out.data;
}

TEST(names_cannot_break_a_line) {
    CHECK_STR(name("main"), "main");
    CHECK_STR(name("It::operator--(int)"), "It::operator- -(int)");
    CHECK_STR(name("---"), "- - -");
    CHECK_STR(name("a\nb\tc\x7f"), "a b c ");
    CHECK_STR(name("\xc2\x9b-\xe2\x80\xae\xc3\xbc"), "  -   \xc3\xbc");
}
