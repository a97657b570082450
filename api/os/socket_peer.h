/* SPDX-License-Identifier: Apache-2.0
 *
 * Which user owns the other end of a connection on this machine. For unix sockets the kernel keeps
 * the user that connected (SO_PEERCRED). TCP has nothing like that, but on loopback both ends are
 * sockets of this machine, so the kernel can be asked about the other one (NETLINK_SOCK_DIAG). That
 * needs the kernel's module tcp_diag; where it cannot be loaded, /proc/self/net/tcp has the same.
 *
 * The kernel reports user 0 for a socket that is not open any more. Such a socket has no inode
 * either, and counts as unknown: otherwise a client could send a request, close its socket and pass
 * for root. Thread safety: any thread. */
#ifndef SONDE_API_OS_SOCKET_PEER_H
#define SONDE_API_OS_SOCKET_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Why the kernel does not say who a peer is, as errnos. Both are 0 if it has answered. */
struct socket_peer_refusal {
    int diag_error, table_error; /* of NETLINK_SOCK_DIAG and of /proc/self/net/tcp */
};

/* `fd` is connected. False if the other end is not a socket of this machine that is still open, or
 * if the kernel does not say; only then *refusal is changed. */
bool socket_peer_uid(int fd, uid_t *uid, struct socket_peer_refusal *refusal);

/* The same for a TCP connection without a descriptor: `own` is the address of this end, `peer` that
 * of the other one. IPv4 or IPv6. */
bool socket_peer_uid_at(const struct sockaddr *own, const struct sockaddr *peer, uid_t *uid,
                        struct socket_peer_refusal *refusal);

/* Writes what failed and what to do about it: "the kernel does not say ...: load the module
 * tcp_diag". "" if the kernel has answered. 256 bytes are enough. */
void socket_peer_explain(const struct socket_peer_refusal *refusal, char *text, size_t size);

#endif
