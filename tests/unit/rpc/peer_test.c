/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/core/peer.h"

#include "tests/unit/check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <unistd.h>

/* A connection to a listener at a loopback address. */
struct pair {
    int listener, client, accepted;
    unsigned port, peer_port;
};

static unsigned port_of(int fd, bool is_peer) {
    struct sockaddr_in6 address = {0};
    socklen_t len = sizeof address;
    CHECK_INT(is_peer ? getpeername(fd, (void *)&address, &len)
                      : getsockname(fd, (void *)&address, &len),
              ==, 0);
    return ntohs(address.sin6_port); /* at the same place in both families */
}

static struct pair open_pair(int family) {
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    void *address = family == AF_INET ? (void *)&v4 : (void *)&v6;
    socklen_t len = family == AF_INET ? sizeof v4 : sizeof v6;
    struct pair pair = {.listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0),
                        .client = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    CHECK(bind(pair.listener, address, len) == 0 && listen(pair.listener, 1) == 0);
    CHECK_INT(getsockname(pair.listener, address, &len), ==, 0);
    CHECK_INT(connect(pair.client, address, len), ==, 0);
    pair.accepted = accept4(pair.listener, NULL, NULL, SOCK_CLOEXEC);
    pair.port = port_of(pair.accepted, false);
    pair.peer_port = port_of(pair.accepted, true);
    return pair;
}

static void close_pair(const struct pair *pair) {
    close(pair->client);
    close(pair->accepted);
    close(pair->listener);
}

/* Asks as access.c does. `peer` and `listener` get the connection's ports. */
static bool asks(const struct pair *pair, const char *peer, const char *listener) {
    struct rpc_listeners listeners = {.count = 2};
    char text[80];
    struct socket_peer_refusal refusal;
    uid_t uid = 4711;
    snprintf(listeners.items[0].address, sizeof listeners.items[0].address, "unix:/run/x");
    snprintf(listeners.items[1].address, sizeof listeners.items[1].address, "%s:%u", listener,
             pair->port);
    snprintf(text, sizeof text, "%s:%u", peer, pair->peer_port);
    bool found = rpc_peer_uid(text, &listeners, &uid, &refusal);
    CHECK(!found || uid == geteuid());
    return found;
}

TEST(the_user_behind_an_ipv4_peer_is_found) {
    struct pair pair = open_pair(AF_INET);
    CHECK(asks(&pair, "ipv4:127.0.0.1", "127.0.0.1"));
    CHECK(asks(&pair, "ipv4:127.0.0.1", "localhost"));
    CHECK(asks(&pair, "ipv4:127.0.0.1", "0.0.0.0"));
    close_pair(&pair);
    CHECK(!asks(&pair, "ipv4:127.0.0.1", "127.0.0.1"));
}

TEST(the_user_behind_an_ipv6_peer_is_found) {
    struct pair pair = open_pair(AF_INET6);
    CHECK(asks(&pair, "ipv6:[::1]", "[::1]"));
    CHECK(asks(&pair, "ipv6:%5B::1%5D", "[::1]"));
    CHECK(asks(&pair, "ipv6:%5B::1%5D", "localhost"));
    CHECK(asks(&pair, "ipv6:%5B::1%5D", "[::]"));
    close_pair(&pair);
}

TEST(only_loopback_peers_have_users) {
    struct pair pair = open_pair(AF_INET);
    static const char *const others[] = {
        "unix", "ipv4:10.0.0.1", "ipv4:128.0.0.1", "ipv6:[2001::1]", "ipv4:", "ipv6:%5B",
        "fd",   "ipv4:localhost"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        CHECK(!asks(&pair, others[i], "127.0.0.1"));
    close_pair(&pair);
}

TEST(another_port_is_another_connection) {
    struct pair pair = open_pair(AF_INET);
    struct pair other = pair;
    other.peer_port = pair.port;
    CHECK(!asks(&other, "ipv4:127.0.0.1", "127.0.0.1"));
    close_pair(&pair);
}
