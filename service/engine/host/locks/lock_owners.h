/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the tid that a lock names as its owner is a thread of the process. The program may write
 * any number there, so the kernel is asked, and answers are kept for a second. In another pid
 * namespace the number is the thread's there; those of all its threads are read at once, at most
 * once a second. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_ENGINE_HOST_LOCKS_LOCK_OWNERS_H
#define SONDE_SERVICE_ENGINE_HOST_LOCKS_LOCK_OWNERS_H

#include <stdint.h>
#include <sys/types.h>

#define LOCK_OWNERS_KEPT    1024u /* answers, by a hash */
#define LOCK_OWNERS_THREADS 256u  /* of a process in another pid namespace; others stay unknown */
#define LOCK_OWNERS_SCANS   16u   /* such processes whose threads are read in a second */

struct lock_owner {
    pid_t pid, tid; /* tid: as this process sees it; 0 = not a thread of pid */
    uint32_t claimed;
    uint64_t until_ns;
};

/* Zeroed memory is empty. */
struct lock_owners {
    struct lock_owner kept[LOCK_OWNERS_KEPT];
    uint64_t next_scan_ns[LOCK_OWNERS_SCANS]; /* by pid: its threads are not read before */
};

/* The thread of process `pid` that calls itself `claimed`, as this process sees it; 0 = there is
 * none. */
pid_t lock_owners_find(struct lock_owners *owners, pid_t pid, uint32_t claimed);

#endif
