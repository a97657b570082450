/* SPDX-License-Identifier: Apache-2.0
 *
 * Gives every thread of the process a sampling clock. A thread created through pthread_create
 * during a capture gets its clock from its first instruction on, with known stack bounds
 * (hooks/thread_hooks.c). All others, older threads and raw clones, are found by reading
 * /proc/self/task, at the start of a capture and about twice a second. Both take
 * sampled_threads_lock. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_THREAD_SCAN_H
#define SONDE_SERVICE_GUEST_SAMPLING_THREAD_SCAN_H

#include "service/guest/held.h"
#include "service/guest/sampling/clock.h"

/* Never samples the calling thread, which is the control thread from now on. */
void threads_exclude_self(void);
/* Starts sampling: gives every thread a clock of this plan and period. Control thread only. */
void threads_open(const struct clock_plan *plan, uint64_t period_ns);
/* The guest starts in this process. Any thread. */
void threads_note_start(void);
/* Whether threads_open reports what threads have used since then as RING_UNSEEN_BEFORE: the first
 * time, and within a second. Control thread only. */
void threads_count_past(bool wanted);
/* Changes the period of all clocks. Control thread only. */
void threads_change(uint64_t period_ns);
/* Replaces all clocks by those of another plan. Control thread only. */
void threads_replan(const struct clock_plan *plan);
/* The same for threads that start from now on; the others keep their clocks. Control thread
 * only. */
void threads_plan_new(const struct clock_plan *plan);
/* Stops sampling: disarms every clock, reports CPU time without samples, frees the entries.
 * Handlers may still be running: see handler_is_quiescent. Control thread only. */
void threads_close(void);
/* Looks for new and for ended threads. Then reads up to 512 CPU clocks, and reports the time of
 * threads that cannot be sampled (a blocked signal, no clock) as RING_RECORD_UNSEEN. Control thread
 * only. */
void threads_look(void);

/* The calling thread starts or ends. stack: [0,0) = not known; start: its registers. Not
 * signal-safe. */
void threads_enter(struct walk_stack stack, const struct unwind_registers *start);
void threads_leave(void);

/* The calling thread must not be sampled from now on, or may be again. When threads_hold returns,
 * its last tick has been delivered. FILTER_IS_HARMLESS holds nothing. Not signal-safe. */
void threads_hold(unsigned reasons);
void threads_release(unsigned reasons);

/* Around exec, on the calling thread: stops its clock and takes back a tick that is pending, which
 * would kill the new program. _release starts the clock again when exec has failed. Signal-safe;
 * does nothing harmful in the child of a vfork. */
void threads_hold_own_clock(void);
void threads_release_own_clock(void);

/* Number of sampled threads, and of held ones. Control thread only. */
uint32_t threads_count(void);
uint32_t threads_held(void);
/* Appends to a note which threads have another clock than planned, or none, and why. Control thread
 * only. */
void threads_note(char *note, size_t size);
/* In the child of a fork. */
void threads_after_fork(void);

#endif
