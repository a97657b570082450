/* SPDX-License-Identifier: Apache-2.0
 *
 * One line of /proc/net/tcp or /proc/net/tcp6, which describes a TCP socket:
 *
 *       1: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000  0 4711 ...
 *          own address   other end     state                                      user    inode
 *
 * Allocates nothing, needs no libc and never reads past `len`. Thread and signal safety: any
 * thread; signal-safe. */
#ifndef SONDE_API_TEXT_TCP_LINE_H
#define SONDE_API_TEXT_TCP_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An IPv4 address inside an IPv6 one (::ffff:127.0.0.1) counts as the IPv4 address. */
struct sonde_tcp_end {
    bool is_v6;
    uint16_t port; /* in the machine's byte order */
    uint32_t
        address[4]; /* in the network's byte order; of IPv4, the first word, and the rest is 0 */
};

struct sonde_tcp_line {
    struct sonde_tcp_end own, other;
    uint64_t inode; /* 0: no process has the socket, and the user is not its owner */
    uint32_t uid;
    uint8_t state; /* TCP_ESTABLISHED, ... */
};

/* Parses a line, with or without its newline. False if it has another form, such as the heading, or
 * a number that does not fit. */
bool sonde_tcp_line_parse(const char *text, size_t len, struct sonde_tcp_line *line);

/* An IPv4 or IPv6 address: `words` is 1 or 4. */
struct sonde_tcp_end sonde_tcp_end(const uint32_t *address, size_t words, uint16_t port);
bool sonde_tcp_end_equals(const struct sonde_tcp_end *a, const struct sonde_tcp_end *b);

#endif
