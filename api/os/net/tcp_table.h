/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a TCP socket of this machine in /proc/self/net/tcp and tcp6, which every kernel has. Each
 * search reads all lines up to the socket's, at most 32 MiB (200,000 sockets). The files are those
 * of this process's network namespace; unlike /proc/net they exist where only processes are visible
 * in /proc (ProcSubset=pid). Thread safety: any thread. */
#ifndef SONDE_API_OS_NET_TCP_TABLE_H
#define SONDE_API_OS_NET_TCP_TABLE_H

#include "api/text/tcp_line.h"

#include <stdbool.h>
#include <sys/types.h>

/* Whether the owner of a socket in this state (TCP_ESTABLISHED, ...) is the peer of a connection.
 * In TIME_WAIT, and when its process has closed it, a socket has no inode, and the kernel says that
 * it belongs to root. A socket that is still connecting may belong to a later connection with the
 * same addresses. */
bool tcp_table_is_peer(uint8_t state, uint64_t inode);

/* Looks for the connected socket with these addresses. Returns 0 or an errno; EFBIG if there are
 * too many sockets. */
int tcp_table_find(const struct sonde_tcp_end *own, const struct sonde_tcp_end *other, bool *found,
                   uid_t *uid);

#endif
