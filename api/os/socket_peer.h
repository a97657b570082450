/* SPDX-License-Identifier: Apache-2.0
 *
 * Which user owns the other end of a connection on this machine. For unix sockets the kernel keeps
 * the user that connected (SO_PEERCRED). TCP has nothing like that, but on loopback both ends are
 * sockets of this machine, so the kernel can be asked about the other one (NETLINK_SOCK_DIAG).
 *
 * The kernel reports user 0 for a socket that is not open any more. Such a socket has no inode
 * either, and counts as unknown: otherwise a client could send a request, close its socket and pass
 * for root. Thread safety: any thread. */
#ifndef SONDE_API_OS_SOCKET_PEER_H
#define SONDE_API_OS_SOCKET_PEER_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/types.h>

/* `fd` is connected. False if the other end is not a socket of this machine that is still open. */
bool socket_peer_uid(int fd, uid_t *uid);

/* The same for a TCP connection without a descriptor: `own` is the address of this end, `peer` that
 * of the other one. IPv4 or IPv6. */
bool socket_peer_uid_at(const struct sockaddr *own, const struct sockaddr *peer, uid_t *uid);

#endif
