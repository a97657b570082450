/* SPDX-License-Identifier: Apache-2.0
 *
 * Sampling after a chroot. A server that calls chroot (haproxy, named -t) has no /proc afterwards,
 * and neither has the guest. So before the call the guest opens /proc/self/maps, keeps it open, and
 * notes all threads; from then on threads add and remove themselves as they start and end. It keeps
 * no directory open, because that would be a way out of the chroot.
 *
 * Threads that a raw clone creates after the chroot are not seen. Any thread, except where a
 * function says control thread. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_CHROOT_H
#define SONDE_SERVICE_GUEST_PROCESS_CHROOT_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

#define CHROOT_THREADS_MAX 16384u /* further threads are not sampled */

/* chroot_prepare was called: threads must add and remove themselves. */
extern _Atomic bool chroot_entered;

/* Called before a chroot. Does nothing without a /proc, as in a second chroot: what the first call
 * opened stays. */
void chroot_prepare(void);
void chroot_add_thread(uint32_t tid);
void chroot_remove_thread(uint32_t tid);
/* In the child of a fork: keeps the one thread, and closes the parent's maps file. */
void chroot_after_fork(void);

/* Opens /proc/self/maps, or rewinds the file that chroot_prepare opened: a descriptor positioned at
 * the start, to be given to chroot_close_maps, or -errno. Control thread only. */
long chroot_open_maps(void);
void chroot_close_maps(long fd);

/* Calls visit for each thread, from /proc/self/task or else from the list. False when neither is
 * available. Control thread only. */
bool chroot_each_thread(void (*visit)(uint32_t tid, void *context), void *context);

#pragma GCC visibility pop

#endif
