/* SPDX-License-Identifier: Apache-2.0
 *
 * Servers that chroot (haproxy, named -t) see no /proc afterwards, and so do we. What the guest
 * cannot do without is taken along at the call: the file that tells the process' mappings, held
 * open, and the list of its threads, which from then on their own beginnings and ends keep. No
 * directory is held open: it would be a way out of the jail.
 *
 * Raw clones that are made in the jail are not on the list. Thread safety: any thread, but for what
 * says control thread. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_CHROOT_H
#define SONDE_SERVICE_GUEST_PROCESS_CHROOT_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define JAIL_THREADS 16384u

extern _Atomic bool jail_entered;

/* Before a chroot: takes along what is to be seen now. */
void jail_prepare(void);
/* A thread of a process in a jail begins, or ends. */
void jail_add(uint32_t tid);
void jail_remove(uint32_t tid);
/* In the child of a fork: its one thread; the parent's mappings are not its own. */
void jail_after_fork(void);

/* /proc/self/maps from its start: a descriptor that jail_close_maps takes back, or -errno. Control
 * thread. */
long jail_open_maps(void);
void jail_close_maps(long fd);
/* Each thread's number, from /proc/self/task or from the list; false when neither is known. Control
 * thread, or before there is one. */
bool jail_each_task(void (*visit)(uint32_t tid, void *context), void *context);

#pragma GCC visibility pop

#endif
