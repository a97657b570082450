/* SPDX-License-Identifier: Apache-2.0 */
#include "service/process/process_identity.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

static ssize_t read_proc(pid_t pid, const char *leaf, char *text, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, leaf);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, size - 1) : -1;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    return len;
}

uint64_t process_start_ticks(pid_t pid) {
    char text[1024];
    read_proc(pid, "stat", text, sizeof text);
    const char *at = strrchr(text, ')'); /* the name before it can contain any character */
    for (int field = 2; at && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at ? strtoull(at + 1, NULL, 10) : 0;
}

/* --- ids -------------------------------------------------------------------------------------- */

#define MAX_GROUPS   64 /* of further ones, files are not opened */
#define STATUS_BYTES 4096

struct groups {
    gid_t items[MAX_GROUPS];
    int count;
};

/* The numbers after a label of /proc/PID/status. */
static int read_numbers(const char *status, const char *label, unsigned *numbers, int limit) {
    const char *at = strstr(status, label);
    int count = 0;
    if (!at)
        return 0;
    at += strlen(label);
    const char *end = at + strcspn(at, "\n");
    while (count < limit) {
        char *next;
        at += strspn(at, " \t");
        numbers[count] = (unsigned)strtoul(at, &next, 10);
        if (at >= end || next == at)
            break;
        at = next;
        count++;
    }
    return count;
}

static bool read_ids(pid_t pid, struct process_ids *ids, struct groups *groups) {
    char status[STATUS_BYTES];
    if (read_proc(pid, "status", status, sizeof status) <= 0 ||
        read_numbers(status, "\nUid:", ids->uids, 3) != 3 ||
        read_numbers(status, "\nGid:", ids->gids, 3) != 3)
        return false;
    if (groups)
        groups->count = read_numbers(status, "\nGroups:", groups->items, MAX_GROUPS);
    return true;
}

static bool is_root(const struct process_ids *ids) {
    return ids->uids[1] == 0;
}

/* --- identity --------------------------------------------------------------------------------- */

/* An older kernel only opens the process that has the pid now. False: the peer has ended. */
static bool open_pidfd(int socket, pid_t pid, int *pidfd) {
    socklen_t len = sizeof *pidfd;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, pidfd, &len) == 0)
        return true;
    bool is_old = errno == ENOPROTOOPT;
    *pidfd = is_old ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    return is_old;
}

bool process_identity_of_peer(int socket, struct process_identity *identity) {
    struct ucred peer;
    socklen_t len = sizeof peer;
    *identity = (struct process_identity){.pidfd = -1};
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0)
        return false;
    identity->pid = peer.pid;
    if (peer.pid > 0 && open_pidfd(socket, peer.pid, &identity->pidfd))
        identity->start_ticks = process_start_ticks(peer.pid);
    struct process_ids *ids = &identity->ids;
    /* A set-id program has several ids. If the effective ones differ already, the process has
     * changed since it connected. */
    if (peer.pid <= 0 || !read_ids(peer.pid, ids, NULL) || ids->uids[1] != peer.uid ||
        ids->gids[1] != peer.gid)
        *ids = (struct process_ids){{peer.uid, peer.uid, peer.uid}, {peer.gid, peer.gid, peer.gid}};
    return true;
}

/* What was read is the process's own if it is alive after that. */
bool process_identity_of_pid(pid_t pid, struct process_identity *identity) {
    *identity = (struct process_identity){.pid = pid, .pidfd = -1};
    identity->pidfd = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    bool is_old = pid > 0 && identity->pidfd < 0 && (errno == ENOSYS || errno == EPERM);
    if (identity->pidfd < 0 && !is_old)
        return false;
    identity->start_ticks = process_start_ticks(pid);
    if (identity->start_ticks && read_ids(pid, &identity->ids, NULL) &&
        process_identity_is_alive(identity))
        return true;
    process_identity_finish(identity);
    errno = ESRCH;
    return false;
}

void process_identity_of_self(struct process_identity *identity) {
    *identity = (struct process_identity){
        .pid = getpid(), .pidfd = -1, .start_ticks = process_start_ticks(getpid())};
    (void)read_ids(getpid(), &identity->ids, NULL);
}

void process_identity_finish(struct process_identity *identity) {
    if (identity->pidfd >= 0)
        close(identity->pidfd);
    identity->pidfd = -1;
}

bool process_identity_is_alive(const struct process_identity *identity) {
    if (identity->pid <= 0 || identity->start_ticks == 0)
        return false;
    if (identity->pidfd >= 0)
        return syscall(SYS_pidfd_send_signal, identity->pidfd, 0, NULL, 0) == 0 || errno == EPERM;
    return process_start_ticks(identity->pid) == identity->start_ticks;
}

/* Reads the ids first: if the process is alive after that, they were its own. */
static bool read_present(const struct process_identity *identity, struct process_ids *ids,
                         struct groups *groups) {
    return identity->pid > 0 && read_ids(identity->pid, ids, groups) &&
           process_identity_is_alive(identity) &&
           (is_root(&identity->ids) || memcmp(ids, &identity->ids, sizeof *ids) == 0);
}

bool process_identity_holds(const struct process_identity *identity) {
    struct process_ids ids;
    return read_present(identity, &ids, NULL);
}

/* --- rights ----------------------------------------------------------------------------------- */

/* Plain system calls change the calling thread only; libc's setgroups would change all threads. */
struct rights {
    bool taken;
    uid_t uid;
    gid_t gid;
    struct groups groups;
};
static _Thread_local struct rights own, target;

static bool apply(const struct rights *rights) {
    if (syscall(SYS_setgroups, (size_t)rights->groups.count, rights->groups.items) != 0)
        return false;
    syscall(SYS_setfsgid, rights->gid);
    syscall(SYS_setfsuid, rights->uid);
    return syscall(SYS_setfsuid, -1) == (long)rights->uid &&
           syscall(SYS_setfsgid, -1) == (long)rights->gid;
}

/* False if sonded has more groups than can be restored. */
static bool remember_own(void) {
    own = (struct rights){.taken = true, .uid = geteuid(), .gid = getegid()};
    own.groups.count = getgroups(MAX_GROUPS, own.groups.items);
    return own.groups.count >= 0;
}

bool process_rights_take(const struct process_identity *identity) {
    struct process_ids ids;
    if (geteuid() != 0)
        return true;
    target = (struct rights){.taken = true};
    if (!read_present(identity, &ids, &target.groups)) {
        ids = identity->ids;
        target.groups.count = 0;
    }
    target.uid = ids.uids[1];
    target.gid = ids.gids[1];
    if (target.uid == 0) {
        target.taken = false;
        return true;
    }
    if (remember_own() && apply(&target))
        return true;
    process_rights_drop();
    return false;
}

void process_rights_drop(void) {
    process_rights_pause();
    target.taken = false;
}

void process_rights_pause(void) {
    if (target.taken && own.taken)
        (void)apply(&own);
}

bool process_rights_resume(void) {
    return !target.taken || apply(&target);
}
