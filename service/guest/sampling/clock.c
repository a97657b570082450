/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/clock.h"

#include "service/guest/held.h"
#include "service/guest/process/append.h"
#include "service/guest/process/fds.h"
#include "service/guest/process/limits.h"
#include "service/guest/process/seccomp_probe.h"
#include "service/guest/raw.h"
#include "service/guest/sampling/sampled_threads.h"
#include "service/guest/signal/period.h"
#include "service/guest/signal/tick.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

#define SAFE_SPAN_NS 100000u /* perf may repeat a span of this length: a handler run fits in */

static _Atomic int perf_budget; /* descriptors that clocks may still use */

/* The event is created disabled. With a first phase of 10 us it would tick many times before the
 * handler knew the descriptor that sets the period. */
static struct perf_event_attr perf_attr(uint64_t period_ns, bool user_only, uint64_t cookie) {
    return (struct perf_event_attr){
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof(struct perf_event_attr),
        .config = PERF_COUNT_SW_CPU_CLOCK,
        .sample_period = period_ns,
        .disabled = 1,
        .exclude_kernel = user_only,
        .exclude_hv = 1,
        .sigtrap = 1,
        .remove_on_exec = 1,
        .sig_data = cookie,
    };
}

static long open_perf(uint32_t tid, uint64_t period_ns, bool user_only, uint64_t cookie) {
    struct perf_event_attr attr = perf_attr(period_ns, user_only, cookie);
    return system_call(SYS_perf_event_open, (long)&attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

static bool perf_kills(void) {
    struct perf_event_attr attr = perf_attr(1u << 30, true, 0);
    struct seccomp_probe_call open = {
        SYS_perf_event_open, (long)&attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC,
    };
    return seccomp_probe_kills(&open, 1);
}

/* Whether a filter that the control thread has inherited kills for a call that a tick makes. The
 * arguments are wrong, so a call that the filter lets pass fails. rt_sigreturn is not tried,
 * because it would end the child. */
static bool tick_kills(void) {
    char name[16];
    const struct seccomp_probe_call calls[] = {
        {.number = SYS_gettid},
        {SYS_prctl, PR_GET_NAME, (long)name, 0, 0, 0},
        {SYS_ioctl, -1, PERF_EVENT_IOC_PERIOD, 0, 0, 0},
        {SYS_timer_settime, -1, 0, 0, 0, 0},
        {SYS_rt_sigprocmask, -1, 0, 0, 8, 0},
        {SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, 0, 0, 0, 0},
        {SYS_sendmsg, -1, 0, MSG_NOSIGNAL, 0, 0},
    };
    return seccomp_probe_kills(calls, sizeof calls / sizeof *calls);
}

/* Creates a timer on the thread's CPU clock, not armed: its id or -errno. */
static long make_timer(uint32_t tid, uint64_t cookie) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID,
                             .sigev_signo = handler_state.timer_signal};
    event.sigev_value.sival_ptr = (void *)cookie;
    event._sigev_un._tid = (int)tid;
    int timer = -1;
    long result = system_call3(SYS_timer_create, THREAD_CPU_CLOCK(tid), (long)&event, (long)&timer);
    return result < 0 ? result : timer;
}

static struct timespec span_of(uint64_t ns) {
    return (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}

static long set_timer(int timer, uint64_t first_ns, uint64_t period_ns) {
    struct itimerspec spec = {.it_interval = span_of(period_ns),
                              .it_value = span_of(first_ns ? first_ns : 1)};
    return system_call(SYS_timer_settime, timer, 0, (long)&spec, 0, 0);
}

const char *clock_name(enum sample_clock clock) {
    static const char *const names[] = {"", "perf-sigtrap", "timer", "itimer"};
    return names[clock];
}

/* Whether perf works for this process, with kernel time or without it. 0 or an errno. Before Linux
 * 5.18 a blocked SIGTRAP from perf killed the process. */
static int try_perf(bool *user_only) {
    if (!limits_kernel_at_least(5, 18))
        return ENOSYS;
    if (perf_kills())
        return ECANCELED;
    long fd = -EACCES;
    for (int without_kernel = 0; without_kernel < 2; without_kernel++) {
        *user_only = without_kernel;
        fd = open_perf((uint32_t)raw_gettid(), 1u << 30, without_kernel, 0);
        if (fd != -EACCES && fd != -EPERM)
            break;
    }
    if (fd < 0)
        return (int)-fd;
    raw_close((int)fd);
    return 0;
}

static int try_timer(int timer_signal) {
    if (!timer_signal)
        return EBUSY;
    long timer = make_timer((uint32_t)raw_gettid(), 0);
    if (timer < 0)
        return (int)-timer;
    system_call3(SYS_timer_delete, timer, 0, 0);
    return 0;
}

static void note(struct clock_plan *plan, const char *text, int error) {
    size_t used = strlen(plan->note);
    append_text(plan->note, sizeof plan->note, used ? "; " : "");
    append_text(plan->note, sizeof plan->note, text);
    if (error) {
        append_text(plan->note, sizeof plan->note, ": ");
        append_errno(plan->note, sizeof plan->note, error);
    }
}

static void plan_perf(struct clock_plan *plan) {
    int open_now, most;
    limits_descriptors(&open_now, &most);
    atomic_store(&perf_budget, most > open_now ? (most - open_now) / 2 : 0);
    plan->clock = SAMPLE_CLOCK_PERF;
    if (plan->user_only)
        note(plan, "time inside the kernel is counted, not shown (kernel.perf_event_paranoid)", 0);
}

void clock_choose(enum sample_clock wanted, int timer_signal, struct clock_plan *plan) {
    *plan = (struct clock_plan){.clock = SAMPLE_CLOCK_NONE, .os_error = EINVAL};
    if (limits_kernel_at_least(5, 16) && tick_kills()) {
        plan->os_error = ECANCELED;
        note(plan, "a seccomp filter kills for what a tick's signal handler calls", 0);
        return;
    }
    if (wanted == SAMPLE_CLOCK_NONE || wanted == SAMPLE_CLOCK_PERF) {
        plan->os_error = try_perf(&plan->user_only);
        plan->no_perf_fallback = wanted == SAMPLE_CLOCK_PERF;
        if (plan->os_error == 0) {
            plan_perf(plan);
            return;
        }
        if (plan->os_error == ECANCELED)
            note(plan, "perf refused: a seccomp filter kills for perf_event_open", 0);
        else if (plan->os_error == ENOSYS && !limits_kernel_at_least(5, 18))
            note(plan, "clocks of perf need Linux 5.18", 0);
        else
            note(plan, "perf refused", plan->os_error);
        plan->user_only = false;
    }
    if (wanted == SAMPLE_CLOCK_NONE || wanted == SAMPLE_CLOCK_TIMER) {
        plan->os_error = try_timer(timer_signal);
        if (plan->os_error == 0) {
            plan->clock = SAMPLE_CLOCK_TIMER;
            note(plan,
                 "samples come at the kernel's tick: at most at its rate, and work in step with it "
                 "is not seen",
                 0);
            return;
        }
        note(plan, "timer_create refused", plan->os_error);
    }
    if (wanted == SAMPLE_CLOCK_NONE || wanted == SAMPLE_CLOCK_PROCESS) {
        plan->clock = SAMPLE_CLOCK_PROCESS;
        plan->os_error = 0;
        note(plan,
             "one clock for all threads, at the kernel's tick: the shares of threads are inexact",
             0);
    }
}

static bool is_perf(int fd, const void *unused) {
    uint64_t id;
    return ioctl(fd, PERF_EVENT_IOC_ID, &id) == 0;
}

static bool arm_perf(struct sampled_thread *thread, uint64_t cookie) {
    if (atomic_fetch_sub(&perf_budget, 1) <= 0) {
        atomic_fetch_add(&perf_budget, 1);
        return false;
    }
    long opened = open_perf(thread->tid, thread->period_ns, thread->user_only, cookie);
    int fd = opened < 0 ? -1 : fds_raise((int)opened, is_perf, NULL);
    if (fd < 0) {
        atomic_fetch_add(&perf_budget, 1);
        return false;
    }
    thread->clock = SAMPLE_CLOCK_PERF;
    atomic_store_explicit(&thread->fd, fd, memory_order_release);
    return true;
}

static bool arm_timer(struct sampled_thread *thread, uint64_t cookie) {
    long timer = handler_state.timer_signal ? make_timer(thread->tid, cookie) : -1;
    if (timer < 0)
        return false;
    thread->clock = SAMPLE_CLOCK_TIMER;
    thread->user_only = false;
    atomic_store_explicit(&thread->timer, (int)timer, memory_order_release);
    return true;
}

/* Returns the time from now to the first tick, and sets the base from which periods are counted.
 * Ticks that were due before the clock could be armed are recorded at once, at the thread's start,
 * so that they do not count for the function that happens to run first. */
static uint64_t first_tick(struct sampled_thread *thread, const struct unwind_registers *start) {
    int64_t period = (int64_t)thread->period_ns,
            phase = (int64_t)period_phase(thread, thread->period_ns);
    int64_t cpu = handler_clock_ns(THREAD_CPU_CLOCK(thread->tid)), origin = start ? 0 : cpu;
    int64_t missed = origin + phase > cpu ? 0 : (cpu - origin - phase) / period + 1;
    int64_t next = origin + phase + missed * period;
    int64_t reported = (int64_t)atomic_load(&thread->reported_ns); /* of an earlier rate */
    if (missed)
        tick_record_start(thread, start, (uint64_t)(missed * period));
    atomic_store(&thread->restart_ns, (next - period - reported) | 1);
    return (uint64_t)(next - cpu);
}

/* Starts the clock: the first tick comes after first_ns, later ones after what the handler sets.
 * perf repeats a span until it is changed, and a very short one would interrupt the thread before
 * its handler gets to change it. Such a span is armed for one tick, and the handler enables the
 * event again. This is done only at a thread's start, when no handler can be running; otherwise a
 * short span is made longer. */
static void run(struct sampled_thread *thread, uint64_t first_ns, bool is_start) {
    int fd = atomic_load(&thread->fd), timer = atomic_load(&thread->timer);
    thread->one_off_period = true;
    bool once = is_start && first_ns < SAFE_SPAN_NS;
    if (!once && first_ns < SAFE_SPAN_NS)
        first_ns = SAFE_SPAN_NS;
    if (fd >= 0) {
        thread->one_shot = once;
        ioctl(fd, PERF_EVENT_IOC_PERIOD, &first_ns);
        if (once)
            ioctl(fd, PERF_EVENT_IOC_REFRESH, 1);
        else
            ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    }
    if (timer >= 0)
        set_timer(timer, first_ns, thread->period_ns);
}

void clock_arm(struct sampled_thread *thread, const struct clock_plan *plan, uint64_t period_ns,
               const struct unwind_registers *start) {
    uint64_t cookie = handler_cookie(thread->incarnation, sampled_threads_index(thread));
    period_begin(thread, period_ns);
    thread->user_only = plan->user_only;
    thread->clock = SAMPLE_CLOCK_NONE;
    if (plan->clock == SAMPLE_CLOCK_PROCESS)
        thread->clock = SAMPLE_CLOCK_PROCESS;
    else if (plan->clock != SAMPLE_CLOCK_PERF || !arm_perf(thread, cookie))
        if (!plan->no_perf_fallback)
            arm_timer(thread, cookie);
    run(thread, first_tick(thread, start), start != NULL);
}

/* The old stream of ticks ends and a new one begins. The unfinished period is dropped, as at a
 * thread's end, and the new random phase makes up for it. */
void clock_change(struct sampled_thread *thread, uint64_t period_ns) {
    period_begin(thread, period_ns);
    run(thread, first_tick(thread, NULL), false);
}

void clock_close(int fd) {
    fds_forget(fd);
    if (is_perf(fd, NULL))
        raw_close(fd);
}

/* If the thread itself calls, its last tick has been delivered when this returns. */
void clock_disarm(struct sampled_thread *thread) {
    int fd = atomic_exchange(&thread->fd, -1), timer = atomic_exchange(&thread->timer, -1);
    if (fd >= 0) {
        ioctl(fd, PERF_EVENT_IOC_DISABLE, 0); /* a copy of fd may live in a forked child */
        clock_close(fd);
        atomic_fetch_add(&perf_budget, 1);
    }
    if (timer >= 0)
        system_call3(SYS_timer_delete, timer, 0, 0);
}

int clock_process(uint64_t period_ns) {
    if (period_ns && held_count(HOLD_STACK | HOLD_FILTER) > 0)
        return EPERM;
    struct timeval span = {(time_t)(period_ns / 1000000000),
                           (suseconds_t)(period_ns / 1000 % 1000000)};
    struct itimerval every = {span, span};
    if (period_ns && span.tv_sec == 0 && span.tv_usec == 0)
        every.it_interval.tv_usec = every.it_value.tv_usec = 1;
    long result = system_call3(SYS_setitimer, ITIMER_PROF, (long)&every, 0);
    return result < 0 ? (int)-result : 0;
}
