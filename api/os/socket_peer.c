/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/socket_peer.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_MS 1000

/* An address in the form of a request: IPv4 has one word, IPv6 four. */
struct end {
    uint8_t family;
    __be16 port;
    __be32 address[4];
};

/* An IPv4 connection of an IPv6 socket is found by its IPv4 addresses. */
static bool read_end(const struct sockaddr *address, struct end *end) {
    *end = (struct end){.family = AF_INET};
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        end->port = v4->sin_port;
        end->address[0] = v4->sin_addr.s_addr;
        return true;
    }
    const struct sockaddr_in6 *v6 = (const void *)address;
    if (address->sa_family != AF_INET6)
        return false;
    end->port = v6->sin6_port;
    if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
        memcpy(end->address, &v6->sin6_addr.s6_addr[12], 4);
        return true;
    }
    end->family = AF_INET6;
    memcpy(end->address, &v6->sin6_addr, sizeof end->address);
    return true;
}

static bool ask(int netlink, const struct end *socket_end, const struct end *other) {
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 body;
    } request = {
        .header = {.nlmsg_len = sizeof request,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST},
        .body = {.sdiag_family = socket_end->family,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = UINT32_MAX,
                 .id = {.idiag_sport = socket_end->port,
                        .idiag_dport = other->port,
                        .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
    };
    memcpy(request.body.id.idiag_src, socket_end->address, sizeof socket_end->address);
    memcpy(request.body.id.idiag_dst, other->address, sizeof other->address);
    return send(netlink, &request, sizeof request, 0) == (ssize_t)sizeof request;
}

/* Where no connection has these addresses the kernel may answer with a listening socket. A socket
 * that is still connecting may belong to a later connection with the same addresses. */
static bool is_connected(const struct inet_diag_msg *found, const struct end *other) {
    return found->id.idiag_dport == other->port && found->idiag_inode != 0 &&
           (found->idiag_state == TCP_ESTABLISHED || found->idiag_state == TCP_FIN_WAIT1 ||
            found->idiag_state == TCP_FIN_WAIT2 || found->idiag_state == TCP_CLOSE_WAIT ||
            found->idiag_state == TCP_CLOSING || found->idiag_state == TCP_LAST_ACK);
}

static bool read_answer(int netlink, const struct end *other, uid_t *uid) {
    struct {
        struct nlmsghdr header;
        struct inet_diag_msg body;
        char more[4096]; /* attributes */
    } answer;
    struct timeval patience = {.tv_sec = ANSWER_MS / 1000};
    setsockopt(netlink, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    ssize_t got = recv(netlink, &answer, sizeof answer, 0);
    if (got < (ssize_t)(sizeof answer.header + sizeof answer.body) ||
        answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY || !is_connected(&answer.body, other))
        return false;
    *uid = answer.body.idiag_uid;
    return true;
}

/* The user of the connected socket whose own address is `socket_end`. */
static bool look_up(const struct end *socket_end, const struct end *other, uid_t *uid) {
    int netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (netlink < 0)
        return false;
    bool found = ask(netlink, socket_end, other) && read_answer(netlink, other, uid);
    close(netlink);
    return found;
}

/* Our own end is looked up after the peer's. If it is still connected then, no later connection
 * with the same addresses existed when the peer was looked up. */
bool socket_peer_uid_at(const struct sockaddr *own, const struct sockaddr *peer, uid_t *uid) {
    struct end own_end, peer_end;
    uid_t own_uid;
    return read_end(own, &own_end) && read_end(peer, &peer_end) &&
           own_end.family == peer_end.family && look_up(&peer_end, &own_end, uid) &&
           look_up(&own_end, &peer_end, &own_uid);
}

static bool unix_peer_uid(int fd, uid_t *uid) {
    struct ucred credentials = {.uid = (uid_t)-1};
    socklen_t len = sizeof credentials;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &len) != 0 ||
        credentials.uid == (uid_t)-1)
        return false;
    *uid = credentials.uid;
    return true;
}

bool socket_peer_uid(int fd, uid_t *uid) {
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_len = sizeof own, peer_len = sizeof peer;
    if (getsockname(fd, (void *)&own, &own_len) != 0 ||
        getpeername(fd, (void *)&peer, &peer_len) != 0)
        return false;
    if (own.ss_family == AF_UNIX)
        return unix_peer_uid(fd, uid);
    return socket_peer_uid_at((void *)&own, (void *)&peer, uid);
}
