/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampling clocks: choosing one that the kernel permits, and arming it per thread.
 *
 *     perf      a perf cpu-clock event with sigtrap: an hrtimer on the thread's CPU time. Exact, at
 *               any rate; needs one descriptor per thread. If the kernel may not be sampled, it
 *               ticks in user code only, and kernel time is reported as unseen.
 *     timer     timer_create on the thread's CPU clock, which the kernel checks at its own tick: at
 *               most CONFIG_HZ samples per CPU-second, in step with that tick. For machines that
 *               refuse perf, and for threads without a descriptor.
 *     process   setitimer(ITIMER_PROF), SIGPROF: one clock for the process, also checked at the
 *               kernel's tick, which does not show who used the CPU. The last resort.
 *
 * The first tick comes after a random part of a period, so a thread that lives 1 ms at 99 Hz is
 * sampled with probability 0.099 instead of never. The handler draws a new period every few ticks,
 * so that no work stays in step with it. */
#ifndef SONDE_SERVICE_GUEST_SAMPLING_CLOCK_H
#define SONDE_SERVICE_GUEST_SAMPLING_CLOCK_H

#include "service/guest/signal/handler_state.h"

struct clock_plan {
    enum sample_clock clock; /* SAMPLE_CLOCK_NONE: none can be armed, see os_error */
    bool user_only;
    bool no_perf_fallback; /* a thread that gets no descriptor has no clock */
    int os_error;
    char note[192]; /* known bias, and why better clocks were refused */
};

/* Chooses a clock by trying it (a few system calls). wanted: SAMPLE_CLOCK_NONE = the best that
 * works. timer_signal: of install.h, 0 = none. Control thread only. */
void clock_choose(enum sample_clock wanted, int timer_signal, struct clock_plan *plan);

/* Arms the thread's clock and sets thread->clock (SAMPLE_CLOCK_NONE if none could be armed). start:
 * the registers of the calling thread at its start; its CPU time so far counts, and is recorded
 * there. NULL: a thread found later, whose time counts from now on. Any thread, with
 * sampled_threads_lock. */
void clock_arm(struct sampled_thread *thread, const struct clock_plan *plan, uint64_t period_ns,
               const struct unwind_registers *start);
/* Changes the period and draws a new first phase. Control thread, with sampled_threads_lock. */
void clock_change(struct sampled_thread *thread, uint64_t period_ns);
/* No tick fires after this. Signals that are pending already may still arrive, except when the
 * thread itself calls. */
void clock_disarm(struct sampled_thread *thread);

/* Closes the descriptor of a perf clock, unless the application has closed it and reuses its
 * number. */
void clock_close(int fd);

/* Arms the process-wide clock; period_ns 0 = disarms it. 0 or an errno: EPERM if threads are held,
 * since any thread may get its signal. */
int clock_process(uint64_t period_ns);

/* "perf-sigtrap", "timer", "itimer", "". */
const char *clock_name(enum sample_clock clock);

#endif
