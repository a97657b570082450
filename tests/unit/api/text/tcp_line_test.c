/* SPDX-License-Identifier: Apache-2.0 */
#include "api/text/tcp_line.h"

#include "tests/unit/check.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <string.h>

#define REST \
    " 00000000:00000000 00:00000000 00000000  1000        0 4711 1 0000000000000000 20 4 0\n"

static struct sonde_tcp_line line;

static bool parse(const char *text) {
    memset(&line, 0xee, sizeof line);
    return sonde_tcp_line_parse(text, strlen(text), &line);
}

static struct sonde_tcp_end end_of(int family, const char *address, uint16_t port) {
    uint32_t words[4];
    CHECK_INT(inet_pton(family, address, words), ==, 1);
    return sonde_tcp_end(words, family == AF_INET ? 1 : 4, port);
}

static bool is_end(const struct sonde_tcp_end *end, int family, const char *address,
                   uint16_t port) {
    struct sonde_tcp_end wanted = end_of(family, address, port);
    return sonde_tcp_end_equals(end, &wanted);
}

/* The tests are for machines with the byte order of x86-64. */
TEST(tcp_line_of_an_ipv4_socket_has_all_fields) {
    CHECK(parse("   1: 0100007F:1F90 0203000A:C350 01" REST));
    CHECK(is_end(&line.own, AF_INET, "127.0.0.1", 8080));
    CHECK(is_end(&line.other, AF_INET, "10.0.3.2", 50000));
    CHECK_INT(line.state, ==, TCP_ESTABLISHED);
    CHECK_INT(line.uid, ==, 1000);
    CHECK_INT(line.inode, ==, 4711);
}

TEST(tcp_line_of_an_ipv6_socket_has_its_addresses) {
    CHECK(parse(
        "12: 00000000000000000000000001000000:0050 B80D0120000000000000000001000000:FFFF 08" REST));
    CHECK(is_end(&line.own, AF_INET6, "::1", 80));
    CHECK(is_end(&line.other, AF_INET6, "2001:db8::1", 65535));
    CHECK_INT(line.state, ==, TCP_CLOSE_WAIT);
}

TEST(tcp_line_with_an_ipv4_address_in_ipv6_equals_ipv4) {
    CHECK(parse(
        "3: 0000000000000000FFFF00000100007F:0050 0000000000000000FFFF00000200007F:0051 01" REST));
    CHECK(is_end(&line.own, AF_INET, "127.0.0.1", 80));
    CHECK(is_end(&line.other, AF_INET, "127.0.0.2", 81));
    CHECK(is_end(&line.own, AF_INET6, "::ffff:127.0.0.1", 80));
    CHECK(!is_end(&line.own, AF_INET6, "::127.0.0.1", 80));
    CHECK(!is_end(&line.own, AF_INET6, "::1", 80));
}

TEST(tcp_line_in_time_wait_has_no_inode) {
    CHECK(parse(
        "1: 020200C0:8CCA 507100CB:0050 06 00000000:00000000 03:00000B80 00000000     0        "
        "0 0 3 00000000b6b9aadf"));
    CHECK_INT(line.state, ==, TCP_TIME_WAIT);
    CHECK_INT(line.uid, ==, 0);
    CHECK_INT(line.inode, ==, 0);
}

TEST(tcp_line_takes_the_largest_numbers) {
    CHECK(parse("1: 0100007F:0001 0100007F:0002 01 0:0 0:0 0 4294967295 0 18446744073709551615"));
    CHECK_INT(line.uid, ==, UINT32_MAX);
    CHECK(line.inode == UINT64_MAX);
}

TEST(tcp_lines_of_another_form_are_refused) {
    static const char *const bad[] = {
        "",
        "\n",
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  "
        "timeout inode\n",
        "1: 0100007F:0001 0100007F:0002 01 0:0 0:0 0 4294967296 0 1",
        "1: 0100007F:0001 0100007F:0002 01 0:0 0:0 0 1 0 18446744073709551616",
        "1: 0100007F:0001 0100007F:0002 01 0:0 0:0 0 -1 0 1",
        "1: 0100007F:0001 0100007F:0002 01 0:0 0:0 0 0x1 0 1",
        "1: 0100007F:0001 0100007F:0002 01 0:0 0:0 0 1 0",
        "1: 0100007F:0001 0100007F:0002 01 0:0 0:0 0",
        "1: 0100007F:0001 0100007F:0002",
        "1: 0100007F:0001 0100007F:02 01" REST,
        "1: 0100007F:0001 0100007F0002 01" REST,
        "1: 0100007f:0001 0100007f:0002 01" REST,
        "1: 100007F:0001 0100007F:0002 01" REST,
        "1: 0100007F0100007F:0001 0100007F0100007F:0002 01" REST,
        "1: 0100007F:0001 00000000000000000000000001000000:0002 01" REST,
        "1: 0100007F:0001 0100007F:0002 G1" REST,
        "1 0100007F:0001 0100007F:0002 01" REST,
        "x: 0100007F:0001 0100007F:0002 01" REST,
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (parse(bad[i]))
            CHECK_STR(bad[i], "refused");
}

TEST(tcp_lines_cut_anywhere_are_refused_or_complete) {
    static const char whole[] = "1: 0100007F:0001 0100007F:0002 01 0:0 0:0 0 1000 0 4711";
    for (size_t len = 0; len < sizeof whole - 1; len++)
        CHECK(!sonde_tcp_line_parse(whole, len, &line) || len >= sizeof whole - sizeof "711");
}
