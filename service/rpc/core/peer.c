/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/core/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HOST 64

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

static bool is_loopback(const union address *address) {
    if (address->any.sa_family == AF_INET)
        return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
    return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
}

/* "127.0.0.1:80", "[::1]:80", "%5B::1%5D:80" (as gRPC writes it in a URI). */
static bool parse(const char *text, union address *address) {
    char host[MAX_HOST];
    const char *colon = strrchr(text, ':'), *start = text, *end = colon;
    if (!colon)
        return false;
    if (strncmp(start, "%5B", 3) == 0 && end - start > 6 && strncmp(end - 3, "%5D", 3) == 0)
        start += 3, end -= 3;
    else if (*start == '[' && end[-1] == ']')
        start += 1, end -= 1;
    if (end < start || (size_t)(end - start) >= sizeof host)
        return false;
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = 0;
    unsigned long port = strtoul(colon + 1, NULL, 10);
    memset(address, 0, sizeof *address);
    if (inet_pton(AF_INET, host, &address->v4.sin_addr) == 1) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = htons((uint16_t)port);
        return true;
    }
    address->v6.sin6_family = AF_INET6;
    address->v6.sin6_port = htons((uint16_t)port);
    return inet_pton(AF_INET6, host, &address->v6.sin6_addr) == 1;
}

/* The peer's own address with the listener's port: the address of our end if the listener has a
 * name ("localhost") or is bound to every address. */
static bool at_same_address(const union address *peer, const char *listener, union address *own) {
    const char *colon = strrchr(listener, ':');
    *own = *peer;
    if (!colon)
        return false;
    uint16_t port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    if (own->any.sa_family == AF_INET)
        own->v4.sin_port = port;
    else
        own->v6.sin6_port = port;
    return true;
}

static bool ask(const union address *own, const union address *peer, uid_t *uid,
                struct socket_peer_refusal *refusal) {
    return own->any.sa_family == peer->any.sa_family &&
           socket_peer_uid_at(&own->any, &peer->any, uid, refusal);
}

bool rpc_peer_uid(const char *peer, const struct rpc_listeners *listeners, uid_t *uid,
                  struct socket_peer_refusal *refusal) {
    union address from, own;
    if (strncmp(peer, "ipv4:", 5) != 0 && strncmp(peer, "ipv6:", 5) != 0)
        return false;
    if (!parse(peer + 5, &from) || !is_loopback(&from))
        return false;
    for (size_t i = 0; i < listeners->count; i++) {
        const char *listener = listeners->items[i].address;
        if (strncmp(listener, "unix:", 5) == 0)
            continue;
        if (parse(listener, &own) && ask(&own, &from, uid, refusal))
            return true;
        if (at_same_address(&from, listener, &own) && ask(&own, &from, uid, refusal))
            return true;
    }
    return false;
}
