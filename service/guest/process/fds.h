/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's descriptors live in a table that belongs to the host. Some hosts close "everything
 * from 3 up" as they become daemons, and would then be given our numbers for files of their own.
 * Three things keep both apart: our numbers are high, where nobody counts on them; close and its
 * kin leave them alone (interpose_close.c); and before the control thread uses a descriptor it sees
 * whether that is still the file it opened, for a host may close past libc. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_FDS_H
#define SONDE_SERVICE_GUEST_PROCESS_FDS_H

#include <stdbool.h>
#include <stdint.h>

struct fds_file {
    int fd; /* -1 = none */
    uint64_t device, inode;
    /* The start of what /proc/self/fd says, for inotify and eventfd share one inode; "" =
     * unknown. */
    char link[24];
};
#define FDS_NONE ((struct fds_file){.fd = -1})

/* Marks fd as ours under a high number when one is to be had, and closes the low one. Gives the
 * number. Any thread. */
int fds_raise(int fd);
/* The number is no longer ours. Does not close it. Any thread; signal-safe. */
void fds_forget(int fd);
/* Whether a number is marked. Numbers of 65536 and more never are. Any thread; signal-safe. */
bool fds_marked(int fd);
/* The first marked number of from..to, or to + 1. */
uint64_t fds_next(uint64_t from, uint64_t to);

/* fds_raise, and what is needed to tell the file from others later. */
struct fds_file fds_keep(int fd);
/* False when the host has closed it, or has given its number to another file. */
bool fds_ours(const struct fds_file *file);
/* Closes it if it is still ours, and forgets it. Nothing when there is none. */
void fds_close(struct fds_file *file);

#endif
