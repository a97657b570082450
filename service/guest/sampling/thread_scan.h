/* SPDX-License-Identifier: Apache-2.0
 *
 * Which threads are sampled: every one. Those that begin through pthread_create while a capture
 * runs take their thread themselves (interpose.c), at their first instruction, with their stack's
 * bounds; all others, older ones and raw clones, are found by reading /proc/self/task, at the start
 * of a capture and about twice a second. Both ways meet under the threads' lock. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_THREAD_SCAN_H
#define SONDE_SERVICE_GUEST_SAMPLING_THREAD_SCAN_H

#include "service/guest/sampling/clock.h"

/* The calling thread is the control thread from now on: never sampled. */
void threads_exclude_self(void);
/* Opens the room and threads every thread there is, with this plan and period. Control thread. */
void threads_open(const struct clock_plan *plan, uint64_t period_ns);
/* Another rate from now on. Control thread. */
void threads_change(uint64_t period_ns);
/* Another kind of clock from now on. Control thread. */
void threads_replan(const struct clock_plan *plan);
/* Closes the room: disarms every clock, reports what no sample showed, gives the threads back.
 * Handlers may still be inside: see handler_is_quiescent. Control thread. */
void threads_close(void);
/* Looks for new threads and for ended ones; then at the CPU clocks of some: time of threads that
 * gave no sample (a blocked signal, no clock) is reported as RING_RECORD_UNSEEN. At most 512 clock
 * reads a call. Control thread. */
void threads_look(void);

/* For threads that begin and end through us, on themselves. stack [0,0) = not known; birth: where
 * the thread stands. */
void threads_enter(struct walk_stack stack, const struct unwind_registers *birth);
void threads_leave(void);

/* Around exec, on the calling thread: no tick may be on its way when the handlers are gone, or the
 * new program dies of it. The clock stands still from _hold to _release (exec failed). Wait-free;
 * nothing happens in a child of vfork. */
void threads_hold_own_clock(void);
void threads_release_own_clock(void);

uint32_t threads_count(void);
/* How many threads have which clock, for the note. Control thread. */
uint32_t threads_with(enum sample_clock clock);
/* Appends "; COUNT" and the words to a note when there are threads with that clock. */
void threads_note(char *note, size_t size, enum sample_clock clock, const char *words);
void threads_after_fork(void);

#endif
