/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampling clocks: what the machine allows, and arming one per thread.
 *
 *     perf      perf cpu-clock with sigtrap: an hrtimer on the thread's CPU time. Exact, any rate,
 *               one descriptor per thread. Where the kernel may not be sampled it ticks in user
 *               code only; the rest is reported as not seen.
 *     timer     timer_create on the thread's CPU clock: looked at by the kernel's tick only, so at
 *               most CONFIG_HZ samples per CPU-second and locked to its phase. For machines that
 *               refuse perf, and for threads beyond the descriptors.
 *     process   setitimer(ITIMER_PROF): one for the process, SIGPROF, tick-locked, blind to who
 *               burned the time. Last resort.
 *
 * The first tick comes after a random part of a period (a thread that lives 1 ms at 99 Hz is
 * sampled with probability 0.099, not never), and the handler draws a new period every few ticks,
 * so that no work stays in step with it. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_CLOCK_H
#define SONDE_SERVICE_GUEST_SAMPLING_CLOCK_H

#include "service/guest/signal/handler_state.h"

struct clock_plan {
    enum sample_clock clock; /* SAMPLE_CLOCK_NONE: nothing can be armed */
    bool user_only;
    bool no_perf_fallback; /* a thread that gets no descriptor stays without a clock */
    int os_error;
    char note[192];
};

/* wanted: SAMPLE_CLOCK_NONE = the best. Looks at what the kernel permits (a few system calls).
 * timer_signal: see install.h; 0 = no real-time signal is free. */
void clock_choose(enum sample_clock wanted, int timer_signal, struct clock_plan *plan);

/* Arms the thread's clock; thread->clock says which one it became (SAMPLE_CLOCK_NONE when none
 * could be). birth: where the calling thread stands at its start; what it has burned already
 * counts, and is shown there. NULL: a thread met later, counted from now on. Any thread, threads
 * locked. */
void clock_arm(struct sampled_thread *thread, const struct clock_plan *plan, uint64_t period_ns,
               const struct unwind_registers *birth);
/* Another period from now on, with a new first phase. Control thread, threads locked. */
void clock_change(struct sampled_thread *thread, uint64_t period_ns);
/* No tick after this, but for signals that are pending already. */
void clock_disarm(struct sampled_thread *thread);

/* Closes a perf clock's descriptor, unless the host has closed it already and uses its number for
 * another file. */
void clock_close(int fd);

/* The process-wide clock. 0 or an errno. period_ns 0 = off. */
int clock_process(uint64_t period_ns);

/* "perf-sigtrap", "timer", "itimer", "". */
const char *clock_name(enum sample_clock clock);

#endif
