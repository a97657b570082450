/* SPDX-License-Identifier: Apache-2.0
 *
 * Ends a process that was told to stop but does not, for example because a library waits for a
 * thread that it could not create. What must survive is written to disk when it changes, so nothing
 * is lost.
 *
 * It needs no memory and no thread, both of which may have run out: SIGALRM's handler writes one
 * line to stderr and ends the process with status 1. Thread safety: any thread; at least one thread
 * must not block SIGALRM. */
#ifndef SONDE_API_OS_EXIT_WATCHDOG_H
#define SONDE_API_OS_EXIT_WATCHDOG_H

#include <stdint.h>

#define EXIT_WATCHDOG_S 10 /* after the time that running calls have */

/* From now on the process has `seconds` to end. `program` is the first word of the line. Only the
 * first call counts. The texts are static. */
void exit_watchdog_start(const char *program, const char *step, uint32_t seconds);
/* What is being stopped now; the line names it. */
void exit_watchdog_step(const char *step);

#endif
