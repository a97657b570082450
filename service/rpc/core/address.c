/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/core/listen.h"

#include "api/text/port.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#define MAX_UNIX_PATH 107

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in4 = (const void *)address;
        return ntohl(in4->sin_addr.s_addr) >> 24 == 127;
    }
    const struct sockaddr_in6 *in6 = (const void *)address;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

/* A name is loopback if all its addresses are. */
static sonde_err look_up(const char *text, struct rpc_address *address, struct sonde_diag *diag) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    int code = getaddrinfo(address->host, NULL, &hints, &found);
    if (code != 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "address %s: %s", text, gai_strerror(code));
    address->is_loopback = true;
    for (struct addrinfo *at = found; at; at = at->ai_next)
        address->is_loopback = address->is_loopback && is_loopback(at->ai_addr);
    freeaddrinfo(found);
    return SONDE_OK;
}

/* "host:1", "1.2.3.4:1", "[::1]:1" */
static bool split(const char *text, struct rpc_address *address) {
    const char *start = text, *end = strrchr(text, ':');
    if (!end)
        return false;
    bool has_brackets = *start == '[' && end - start >= 2 && end[-1] == ']';
    if (!has_brackets && memchr(start, ':', (size_t)(end - start)))
        return false;
    start += has_brackets;
    size_t len = (size_t)(end - start) - has_brackets;
    if (len == 0 || len >= sizeof address->host)
        return false;
    memcpy(address->host, start, len);
    address->host[len] = 0;
    return true;
}

sonde_err rpc_address_parse(const char *text, struct rpc_address *address,
                            struct sonde_diag *diag) {
    memset(address, 0, sizeof *address);
    if (strncmp(text, "unix:", 5) != 0) {
        if (!split(text, address))
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                              "address \"%.64s\" is neither unix:PATH nor HOST:PORT", text);
        if (!sonde_port_read(strrchr(text, ':') + 1, &address->port))
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "address \"%.64s\": " SONDE_PORT_RULE,
                              text);
        return look_up(text, address, diag);
    }
    address->path = strncmp(text + 5, "///", 3) == 0 ? text + 7 : text + 5;
    size_t len = strlen(address->path);
    if (len == 0 || len > MAX_UNIX_PATH - strlen(".lock"))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "address \"%.64s\": the path of a unix socket has 1 to %zu bytes", text,
                          MAX_UNIX_PATH - strlen(".lock"));
    return SONDE_OK;
}
