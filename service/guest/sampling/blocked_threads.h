/* SPDX-License-Identifier: Apache-2.0
 *
 * Where threads are when they do not run, for wall-clock and off-CPU captures. Nobody is signalled
 * or stopped for it, so no system call ends early.
 *
 * The control thread looks at threads one after the other. What a look finds out costs little: the
 * thread's CPU clock (0.3 us) tells whether it has run since the last look, and if it has not it
 * still stands where it stood. Only a thread that has run is looked at anew (about 10 us): the
 * kernel tells its place in the call it is blocked in, its stack is copied and walked by the
 * tables, and its CPU clock must still be the same afterwards. Time is never guessed: between two
 * looks a thread was off the CPU for as long as the wall clock moved more than its CPU clock did,
 * less what it waited for a CPU; that much is recorded, so a thread's records and its CPU samples
 * sum to the wall clock however seldom it is looked at. Which of its places gets the time of a gap
 * is a sample: the one it stands in at the look.
 *
 * A thread that does not run is looked at less and less often, down to 5 times a second (once, with
 * thousands of threads); all looks together take at most 2 % of one CPU, and what does not fit
 * comes later. Control thread, except blocked_enter and blocked_leave. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_BLOCKED_THREADS_H
#define SONDE_SERVICE_GUEST_SAMPLING_BLOCKED_THREADS_H

#include "service/guest/signal/handler_state.h"

/* Looks at every thread about once a period from now on. 0 or an errno: why stacks of blocked
 * threads cannot be read here (times are recorded all the same). The rings are there. */
int blocked_open(uint64_t period_ns);
/* Records everything up to now and forgets it. */
void blocked_close(void);
/* Records everything up to now. */
void blocked_flush(void);
bool blocked_is_open(void);
void blocked_after_fork(void);
/* Looks at those whose turn it is. */
void blocked_round(void);
/* When the next round is due, CLOCK_MONOTONIC; INT64_MAX when nobody asks. */
int64_t blocked_due_ns(void);

/* A thread is taken, and about to be given back. has_ended: the thread was found gone. Any thread,
 * threads locked. */
void blocked_enter(const struct sampled_thread *thread);
void blocked_leave(const struct sampled_thread *thread, bool has_ended);

#endif
