/* SPDX-License-Identifier: Apache-2.0
 *
 * Ends a process that was told to stop but does not, for example because a library waits for a
 * thread that it could not create. What must survive is written to disk when it changes, so nothing
 * is lost.
 *
 * It needs no memory and no thread, both of which may have run out: SIGALRM's handler gives up the
 * locks, writes one line to stderr and ends the process with status 1. The locks come first: a
 * thread that waits for a device keeps the process from ending, and the next one must be able to
 * start. Thread safety: any thread; at least one thread must not block SIGALRM. */
#ifndef SONDE_API_OS_EXIT_WATCHDOG_H
#define SONDE_API_OS_EXIT_WATCHDOG_H

#include <stdint.h>

#define EXIT_WATCHDOG_S 10 /* after the time that running calls have */

/* From now on the process has `seconds` to end. `program` is the first word of the line. Only the
 * first call counts. The texts are static. */
void exit_watchdog_start(const char *program, const char *step, uint32_t seconds);
/* What is being stopped now; the line names it. */
void exit_watchdog_step(const char *step);

#define EXIT_WATCHDOG_LOCKS 16
/* A descriptor with a lock (flock) that the next process needs; further ones than
 * EXIT_WATCHDOG_LOCKS are ignored. Call exit_watchdog_forget before the descriptor is closed. */
void exit_watchdog_lock(int fd);
void exit_watchdog_forget(int fd);

#endif
