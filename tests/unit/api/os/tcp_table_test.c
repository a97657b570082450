/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/net/tcp_table.h"

#include "tests/unit/check.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* A connection over 127.0.0.1, and the addresses of its ends. */
struct pair {
    int client, accepted;
    struct sonde_tcp_end client_end, own_end;
};

static struct sonde_tcp_end end_of(int fd) {
    struct sockaddr_in address = {0};
    socklen_t len = sizeof address;
    CHECK_INT(getsockname(fd, (void *)&address, &len), ==, 0);
    return sonde_tcp_end(&address.sin_addr.s_addr, 1, ntohs(address.sin_port));
}

static struct pair open_pair(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    struct pair pair = {.client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(listener, (void *)&address, len) == 0 && listen(listener, 1) == 0);
    CHECK_INT(getsockname(listener, (void *)&address, &len), ==, 0);
    CHECK_INT(connect(pair.client, (void *)&address, len), ==, 0);
    pair.accepted = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(listener);
    pair.client_end = end_of(pair.client);
    pair.own_end = end_of(pair.accepted);
    return pair;
}

static bool finds_client(const struct pair *pair) {
    bool found = true;
    uid_t uid = 4711;
    CHECK_INT(tcp_table_find(&pair->client_end, &pair->own_end, &found, &uid), ==, 0);
    CHECK_INT(uid, ==, found ? geteuid() : 4711);
    return found;
}

/* The line of the client's socket, wherever it is and in whatever state. */
static bool read_client(const struct pair *pair, struct sonde_tcp_line *line) {
    char text[256];
    bool found = false;
    FILE *file = fopen("/proc/self/net/tcp", "re");
    CHECK(file != NULL);
    while (!found && fgets(text, sizeof text, file))
        found = sonde_tcp_line_parse(text, strlen(text), line) &&
                sonde_tcp_end_equals(&line->own, &pair->client_end) &&
                sonde_tcp_end_equals(&line->other, &pair->own_end);
    fclose(file);
    return found;
}

TEST(a_connected_socket_is_found_with_its_user) {
    struct pair pair = open_pair();
    CHECK(finds_client(&pair));
    shutdown(pair.client, SHUT_WR);
    CHECK(finds_client(&pair));
    close(pair.client);
    close(pair.accepted);
}

TEST(a_socket_that_its_process_has_closed_is_not_roots) {
    struct pair pair = open_pair();
    struct sonde_tcp_line line;
    close(pair.client);
    CHECK(read_client(&pair, &line));
    CHECK_INT(line.uid, ==, 0); /* what the kernel says */
    CHECK(!finds_client(&pair));
    close(pair.accepted);
}

TEST(a_socket_in_time_wait_is_not_roots) {
    struct pair pair = open_pair();
    struct sonde_tcp_line line;
    char byte;
    close(pair.client);
    CHECK_INT(read(pair.accepted, &byte, 1), ==, 0);
    close(pair.accepted);
    CHECK(read_client(&pair, &line));
    CHECK_INT(line.state, ==, TCP_TIME_WAIT);
    CHECK_INT(line.uid, ==, 0);
    CHECK(!finds_client(&pair));
}

TEST(the_addresses_must_be_those_of_one_connection) {
    struct pair pair = open_pair(), other = open_pair();
    struct pair mixed = {.client_end = pair.client_end, .own_end = other.own_end};
    CHECK(!finds_client(&mixed));
    mixed = (struct pair){.client_end = pair.client_end, .own_end = pair.own_end};
    mixed.client_end.port ^= 1;
    CHECK(!finds_client(&mixed));
    close(pair.client);
    close(pair.accepted);
    close(other.client);
    close(other.accepted);
}

TEST(states_without_an_owner_are_nobodys) {
    CHECK(tcp_table_is_peer(TCP_ESTABLISHED, 1));
    CHECK(tcp_table_is_peer(TCP_FIN_WAIT2, 1));
    CHECK(!tcp_table_is_peer(TCP_ESTABLISHED, 0));
    static const uint8_t others[] = {
        TCP_SYN_SENT, TCP_SYN_RECV, TCP_TIME_WAIT, TCP_CLOSE, TCP_LISTEN, 0, 12, 255};
    for (size_t i = 0; i < sizeof others; i++)
        CHECK(!tcp_table_is_peer(others[i], 1));
}
