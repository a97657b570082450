/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose sonded the guest talks to. Any user can listen on an abstract name, or in a directory that
 * others can write, before the real sonded does. Whoever listens gets this process's mappings and
 * samples, and its unwind tables steer the signal handler. So the guest talks only to root and to
 * its own user.
 *
 * The kernel reports as the peer's user the one who called listen. In a user namespace, every user
 * without a number there has the same one, the overflow uid (65534, "nobody"). So outside the first
 * namespace a peer with this number is refused, even if the server runs as nobody itself: it could
 * be anybody. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_PEER_H
#define SONDE_SERVICE_GUEST_PROCESS_PEER_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

/* Whether the peer of a connected unix socket is root or has the calling thread's effective uid.
 * *uid: the peer's, UINT32_MAX when the kernel does not report it. Control thread only. */
bool peer_may_serve(int fd, uint32_t *uid);

/* Whether a process with effective uid `own` may be served by `peer`, given the text of
 * /proc/self/uid_map and the overflow uid. */
bool peer_is_allowed(uint32_t own, uint32_t peer, const char *uid_map, uint32_t overflow);

#pragma GCC visibility pop

#endif
