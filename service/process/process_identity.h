/* SPDX-License-Identifier: Apache-2.0
 *
 * Which process connected or is sampled, and with which rights.
 *
 * A pid is only a number: when its process has ended, another one gets it. And a process can run a
 * set-uid program over a connection that it made before. So sonded remembers the process behind a
 * connection by a pidfd (or its start time) and its user and group ids. Whoever reads /proc/PID or
 * the memory of a target, or stops it, calls process_identity_holds before, and again after, and
 * discards what was read if the answer is no.
 *
 * Files are opened with the rights that the process has itself: root's sonded must not read a file
 * for a user who may not. process_rights_take gives them to the calling thread.
 *
 * Thread safety: an identity does not change after its init, so any thread may use it. Rights
 * belong to the calling thread. */
#ifndef SONDE_SERVICE_PROCESS_PROCESS_IDENTITY_H
#define SONDE_SERVICE_PROCESS_PROCESS_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct process_ids {
    uid_t uids[3]; /* real, effective, saved */
    gid_t gids[3];
};

struct process_identity {
    pid_t pid;              /* not positive: it is in another pid namespace */
    int pidfd;              /* -1 = the kernel has none; then the start time identifies it */
    uint64_t start_ticks;   /* 0 = it had ended already */
    struct process_ids ids; /* when it connected */
};

/* The process that connected this unix socket. False: the socket has no peer. */
bool process_identity_of_peer(int socket, struct process_identity *identity);
/* The process that has this pid now. False: there is none, or it is one thread of a process, and
 * errno is EINVAL or ENOENT then. */
bool process_identity_of_pid(pid_t pid, struct process_identity *identity);
/* This process, for code that has no target. */
void process_identity_of_self(struct process_identity *identity);
void process_identity_finish(struct process_identity *identity);

/* Whether the process still has its pid; cheap with a pidfd. A zombie still has it. */
bool process_identity_is_alive(const struct process_identity *identity);
/* Whether the process still has its pid and the ids with which it connected. A process that
 * connected as root may have given up its ids. */
bool process_identity_holds(const struct process_identity *identity);

/* When the process started, in clock ticks since boot; 0 = it is gone. */
uint64_t process_start_ticks(pid_t pid);

/* Has the calling thread open files with the rights of the process: its present ids and groups, or,
 * if it is gone, those with which it connected. Changes nothing if the process is root's, or if
 * sonded is not root and so has no other rights. False, and nothing has changed: this sonded lacks
 * CAP_SETUID or CAP_SETGID. As a side effect, the kernel writes no core dump of this process. */
bool process_rights_take(const struct process_identity *identity);
void process_rights_drop(void);
/* Between take and drop: use sonded's own rights for a moment. After a failed resume, no file may
 * be opened before drop. */
void process_rights_pause(void);
bool process_rights_resume(void);

#endif
