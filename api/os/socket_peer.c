/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/socket_peer.h"

#include "api/os/net/tcp_table.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#define ANSWER_MS 1000

struct request {
    struct nlmsghdr header;
    struct inet_diag_req_v2 body;
};

struct answer {
    struct nlmsghdr header;
    union {
        struct inet_diag_msg socket;
        int error; /* of NLMSG_ERROR and NLMSG_DONE; 0 or a negative errno */
    };
    char more[4096]; /* attributes */
};

static bool read_end(const struct sockaddr *address, struct sonde_tcp_end *end) {
    uint32_t words[4];
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const void *)address;
        *end = sonde_tcp_end(&v4->sin_addr.s_addr, 1, ntohs(v4->sin_port));
        return true;
    }
    const struct sockaddr_in6 *v6 = (const void *)address;
    if (address->sa_family != AF_INET6)
        return false;
    memcpy(words, &v6->sin6_addr, sizeof words);
    *end = sonde_tcp_end(words, 4, ntohs(v6->sin6_port));
    return true;
}

/* ---- NETLINK_SOCK_DIAG ---- */

static struct request new_request(const struct sonde_tcp_end *end, int flags) {
    return (struct request){
        .header = {.nlmsg_len = sizeof(struct request),
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)},
        .body = {.sdiag_family = end->is_v6 ? AF_INET6 : AF_INET, .sdiag_protocol = IPPROTO_TCP},
    };
}

/* Returns 0 or an errno. An answer that says that there was an error is an answer. */
static int exchange(int netlink, const struct request *request, struct answer *answer) {
    struct timeval patience = {.tv_sec = ANSWER_MS / 1000};
    setsockopt(netlink, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    if (send(netlink, request, sizeof *request, 0) != (ssize_t)sizeof *request)
        return errno;
    ssize_t got = recv(netlink, answer, sizeof *answer, 0);
    size_t needed = sizeof answer->header;
    if (got >= (ssize_t)needed && answer->header.nlmsg_type == SOCK_DIAG_BY_FAMILY)
        needed += sizeof answer->socket;
    else
        needed += sizeof answer->error;
    return got < 0 ? errno : got < (ssize_t)needed ? EPROTO : 0;
}

/* Asks for the sockets in none of the states: an empty list, or an error without tcp_diag. */
static bool has_module(int netlink, const struct sonde_tcp_end *end) {
    struct request request = new_request(end, NLM_F_DUMP);
    struct answer answer;
    return exchange(netlink, &request, &answer) == 0 && answer.header.nlmsg_type == NLMSG_DONE &&
           answer.error == 0;
}

static int ask(int netlink, const struct sonde_tcp_end *end, const struct sonde_tcp_end *other,
               struct answer *answer) {
    struct request request = new_request(end, 0);
    struct inet_diag_sockid *id = &request.body.id;
    request.body.idiag_states = UINT32_MAX;
    id->idiag_sport = htons(end->port);
    id->idiag_dport = htons(other->port);
    id->idiag_cookie[0] = id->idiag_cookie[1] = INET_DIAG_NOCOOKIE;
    memcpy(id->idiag_src, end->address, sizeof end->address);
    memcpy(id->idiag_dst, other->address, sizeof other->address);
    return exchange(netlink, &request, answer);
}

/* The kernel says ENOENT if there is no such socket, and also if there is no module. Where no
 * connection has these addresses it may answer with a listening socket. */
static int find_by_diag(int netlink, const struct sonde_tcp_end *end,
                        const struct sonde_tcp_end *other, bool *found, uid_t *uid) {
    struct answer answer;
    int error = ask(netlink, end, other, &answer);
    if (error)
        return error;
    if (answer.header.nlmsg_type == NLMSG_ERROR && answer.error == -ENOENT)
        return has_module(netlink, end) ? 0 : ENOENT;
    if (answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY)
        return answer.header.nlmsg_type == NLMSG_ERROR && answer.error < 0 ? -answer.error : EPROTO;
    *found = answer.socket.id.idiag_dport == htons(other->port) &&
             tcp_table_is_peer(answer.socket.idiag_state, answer.socket.idiag_inode);
    if (*found)
        *uid = answer.socket.idiag_uid;
    return 0;
}

static int ask_diag(const struct sonde_tcp_end *end, const struct sonde_tcp_end *other, bool *found,
                    uid_t *uid) {
    int netlink = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (netlink < 0)
        return errno;
    int error = find_by_diag(netlink, end, other, found, uid);
    close(netlink);
    return error;
}

/* ---- Either way ---- */

/* The user of the connected socket whose own address is `end`. */
static bool look_up(const struct sonde_tcp_end *end, const struct sonde_tcp_end *other, uid_t *uid,
                    struct socket_peer_refusal *refusal) {
    bool found = false;
    int diag_error = ask_diag(end, other, &found, uid);
    if (diag_error == 0)
        return found;
    int table_error = tcp_table_find(end, other, &found, uid);
    if (table_error)
        *refusal = (struct socket_peer_refusal){diag_error, table_error};
    return found;
}

/* Our own end is looked up after the peer's. If it is still connected then, no later connection
 * with the same addresses existed when the peer was looked up. */
bool socket_peer_uid_at(const struct sockaddr *own, const struct sockaddr *peer, uid_t *uid,
                        struct socket_peer_refusal *refusal) {
    struct sonde_tcp_end own_end, peer_end;
    uid_t peer_uid, own_uid;
    if (!read_end(own, &own_end) || !read_end(peer, &peer_end) || own_end.is_v6 != peer_end.is_v6 ||
        !look_up(&peer_end, &own_end, &peer_uid, refusal) ||
        !look_up(&own_end, &peer_end, &own_uid, refusal))
        return false;
    *uid = peer_uid;
    return true;
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

bool socket_peer_uid(int fd, uid_t *uid, struct socket_peer_refusal *refusal) {
    struct sockaddr_storage own = {0}, peer = {0};
    socklen_t own_len = sizeof own, peer_len = sizeof peer;
    if (getsockname(fd, (void *)&own, &own_len) != 0 ||
        getpeername(fd, (void *)&peer, &peer_len) != 0)
        return false;
    if (own.ss_family == AF_UNIX)
        return unix_peer_uid(fd, uid);
    return socket_peer_uid_at((void *)&own, (void *)&peer, uid, refusal);
}

void socket_peer_explain(const struct socket_peer_refusal *refusal, char *text, size_t size) {
    text[0] = 0;
    if (refusal->diag_error || refusal->table_error)
        snprintf(text, size,
                 "the kernel does not say who is calling (sock_diag: %s, /proc/net/tcp: %s): load "
                 "the module tcp_diag",
                 strerror(refusal->diag_error), strerror(refusal->table_error));
}
