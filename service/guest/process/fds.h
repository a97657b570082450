/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest's descriptors are numbers in a table that belongs to the application. Some programs
 * close every descriptor from 3 up when they become daemons, and then get the guest's numbers for
 * their own files. Three measures keep the two apart: the guest's numbers are high, close and its
 * relatives skip them (hooks/close_hooks.c), and before the control thread uses a descriptor it
 * checks that it still is the file it opened, since a program may call the kernel without libc. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_FDS_H
#define SONDE_SERVICE_GUEST_PROCESS_FDS_H

#include <stdbool.h>
#include <stdint.h>

struct fds_file {
    int fd; /* -1 = none */
    uint64_t device, inode;
    /* The start of the link in /proc/self/fd, since inotify and eventfd files share one inode. ""
     * when unknown. */
    char link[24];
};
#define FDS_NONE ((struct fds_file){.fd = -1})

/* Whether a descriptor is the one that the guest has just opened. */
typedef bool fds_check(int fd, const void *context);

/* Moves fd to a high number, if one is free, and marks the number as ours. Returns the number, or
 * -1 if another thread of the program has closed fd or reused its number since it was opened. What
 * is there then stays open. Any thread. */
int fds_raise(int fd, fds_check *is_ours, const void *context);
/* Removes the mark, without closing. Any thread; signal-safe. */
void fds_forget(int fd);
/* Whether a number is marked; never for numbers from 65536 up. Any thread; signal-safe. */
bool fds_marked(int fd);
/* The first marked number in from..to, or to + 1. Any thread; signal-safe. */
uint64_t fds_next(uint64_t from, uint64_t to);

/* fds_raise, and notes what identifies the file. FDS_NONE when it is not open any more. The caller
 * must not use fd afterwards, and owns the result until fds_close. Any thread. */
struct fds_file fds_keep(int fd);
/* False when the application has closed the descriptor or reused its number. Any thread. */
bool fds_ours(const struct fds_file *file);
/* Closes the descriptor if it still is ours, removes the mark and sets *file to FDS_NONE. Accepts
 * FDS_NONE. Any thread. */
void fds_close(struct fds_file *file);

#endif
