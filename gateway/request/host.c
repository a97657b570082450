/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/host.h"

#include <arpa/inet.h>
#include <string.h>

#define MAX_HOST 253 /* longest DNS name */

static bool is_port(struct sonde_slice text) {
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return text.len <= 5;
}

/* Copies the host without port, brackets and the final dot of a fully qualified name. False if the
 * authority is malformed. */
static bool split(struct sonde_slice authority, char host[MAX_HOST + 1], bool *in_brackets) {
    *in_brackets = authority.len > 0 && authority.data[0] == '[';
    const char *end = *in_brackets ? memchr(authority.data, ']', authority.len)
                                   : memchr(authority.data, ':', authority.len);
    size_t start = *in_brackets ? 1 : 0;
    size_t stop = end ? (size_t)(end - authority.data) : authority.len;
    if (*in_brackets && !end)
        return false;
    struct sonde_slice rest = {authority.data + stop, authority.len - stop};
    rest.data += *in_brackets;
    rest.len -= *in_brackets;
    bool good_rest = rest.len == 0 || (rest.data[0] == ':' &&
                                       is_port((struct sonde_slice){rest.data + 1, rest.len - 1}));
    size_t len = stop - start;
    if (len > 1 && !*in_brackets && authority.data[stop - 1] == '.')
        len--;
    if (!good_rest || len == 0 || len > MAX_HOST || memchr(authority.data, 0, stop))
        return false;
    memcpy(host, authority.data + start, len);
    host[len] = 0;
    return true;
}

static bool ends_with(const char *host, const char *end) {
    size_t len = strlen(host), end_len = strlen(end);
    return len > end_len && strcasecmp(host + len - end_len, end) == 0;
}

static bool is_loopback_v6(const struct in6_addr *address) {
    return IN6_IS_ADDR_LOOPBACK(address) ||
           (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

bool host_is_loopback(struct sonde_slice authority) {
    char host[MAX_HOST + 1];
    struct in_addr v4;
    struct in6_addr v6;
    bool in_brackets;
    if (!split(authority, host, &in_brackets))
        return false;
    if (in_brackets)
        return inet_pton(AF_INET6, host, &v6) == 1 && is_loopback_v6(&v6);
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return strcasecmp(host, "localhost") == 0 || ends_with(host, ".localhost");
}

bool host_is_address(struct sonde_slice authority) {
    char host[MAX_HOST + 1];
    struct in6_addr any; /* large enough for both */
    bool in_brackets;
    return split(authority, host, &in_brackets) &&
           inet_pton(in_brackets ? AF_INET6 : AF_INET, host, &any) == 1;
}

bool host_is_listed(struct sonde_slice authority, const char *const *names, size_t count) {
    char host[MAX_HOST + 1];
    bool in_brackets;
    bool good = split(authority, host, &in_brackets);
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], "*") == 0 || (good && strcasecmp(names[i], host) == 0))
            return true;
    return false;
}
