/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/peer.h"

#include "service/guest/process/procfs.h"

#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#define OVERFLOW 65534u /* the default of kernel.overflowuid */

static uint32_t read_number(const char **at) {
    uint64_t number = 0;
    while (**at == ' ')
        ++*at;
    for (; **at >= '0' && **at <= '9' && number <= UINT32_MAX; ++*at)
        number = number * 10 + (uint64_t)(**at - '0');
    return number <= UINT32_MAX ? (uint32_t)number : 0;
}

/* Whether every user has a number here: one line that maps 0 to 0 for all 2^32 - 1 uids. */
static bool maps_everybody(const char *uid_map) {
    const char *at = uid_map;
    uint32_t inside = read_number(&at), outside = read_number(&at), count = read_number(&at);
    return inside == 0 && outside == 0 && count == UINT32_MAX;
}

bool peer_is_allowed(uint32_t own, uint32_t peer, const char *uid_map, uint32_t overflow) {
    if (peer != 0 && peer != own)
        return false;
    return peer != overflow || maps_everybody(uid_map);
}

/* Without a /proc, as in a chroot, the map counts as that of another namespace. */
static bool is_allowed(uint32_t peer) {
    char map[128] = "", overflow[16] = "";
    const char *at = overflow;
    (void)procfs_read_file("/proc/self/uid_map", map, sizeof map);
    bool is_known = procfs_read_file("/proc/sys/kernel/overflowuid", overflow, sizeof overflow) > 0;
    return peer_is_allowed(geteuid(), peer, map, is_known ? read_number(&at) : OVERFLOW);
}

bool peer_may_serve(int fd, uint32_t *uid) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    *uid = UINT32_MAX;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return false;
    *uid = peer.uid;
    return is_allowed(peer.uid);
}
