/* SPDX-License-Identifier: Apache-2.0
 *
 * Where threads are while they do not run, for wall-clock and off-CPU captures. Threads are neither
 * signalled nor stopped for it, so no system call is interrupted.
 *
 * The control thread looks at one thread after the other. First it reads the thread's CPU clock
 * (0.3 us). If the clock has not moved, the thread has not run since the last look, and its stack
 * is the same. Otherwise (about 10 us) it asks the kernel where the thread is blocked, copies its
 * stack, walks the copy with the unwind tables, and uses the result if the CPU clock has not moved
 * meanwhile.
 *
 * Times are exact. Between two looks a thread was off the CPU for the difference between wall clock
 * and CPU clock, less the time it waited for a CPU. All of it is recorded, so a thread's blocked
 * records and CPU samples add up to wall time however rarely it is looked at. Only the stack is a
 * sample: the whole interval counts for the stack at its end.
 *
 * A thread that does not run is looked at less and less often, down to 5 times a second, or once a
 * second if there are thousands of threads. All looks together use at most 2 % of one CPU; what
 * does not fit comes later. Control thread only, except blocked_enter and blocked_leave. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_BLOCKED_THREADS_H
#define SONDE_SERVICE_GUEST_SAMPLING_BLOCKED_THREADS_H

#include "service/guest/signal/handler_state.h"

/* Starts to look at every thread about once per period, or changes the period. 0, or an errno that
 * says why stacks cannot be read here; times are recorded in any case. The rings must exist. */
int blocked_open(uint64_t period_ns);
/* Records everything up to now and stops. */
void blocked_close(void);
/* Records everything up to now. */
void blocked_flush(void);
bool blocked_is_open(void);
/* In the child of a fork. */
void blocked_after_fork(void);
/* Looks at the threads that are due. */
void blocked_round(void);
/* When the next round is due, CLOCK_MONOTONIC in ns; INT64_MAX when closed. */
int64_t blocked_due_ns(void);

/* A sampled thread was added, or is about to be removed. has_ended: the thread no longer exists.
 * Any thread, with sampled_threads_lock. */
void blocked_enter(const struct sampled_thread *thread);
void blocked_leave(const struct sampled_thread *thread, bool has_ended);

#endif
