/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/thread_scan.h"

#include "service/guest/held.h"
#include "service/guest/process/append.h"
#include "service/guest/process/chroot.h"
#include "service/guest/process/procfs.h"
#include "service/guest/raw.h"
#include "service/guest/sampling/blocked_threads.h"
#include "service/guest/sampling/sampled_threads.h"
#include "service/guest/signal/period.h"
#include "service/guest/signal/push.h"
#include "service/guest/signal/tick.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <time.h>

#define CLOCK_READS   512u     /* in one look */
#define UNSEEN_MIN_NS 20000000 /* less may be the inexactness of the ticks */
#define SCAN_PASSES   4u
#define LOADING_NS    20000000   /* of CPU time, at most, until a new program's guest starts */
#define YOUNG_NS      1000000000 /* an older guest may have waited for sonded */

static struct clock_plan plan;
static uint32_t scan;   /* number of the last scan */
static uint32_t cursor; /* index of the last thread whose clock was read */
static uint32_t found;  /* new threads in this pass */
static uint32_t own_tid;
static bool first_scan;
static bool counts_past, has_sampled;
static int64_t start_ns, start_cpu_ns;    /* CLOCK_MONOTONIC, and the main thread's clock */
static struct procfs_seccomp own_filters; /* the control thread's */

static bool is_signal_blocked(const struct sampled_thread *thread) {
    int signal = thread->clock == SAMPLE_CLOCK_TIMER ? handler_state.timer_signal : SIGTRAP;
    return procfs_task_mask(thread->tid, "SigBlk:") >> (signal - 1) & 1;
}

/* Records unseen time, after the name of a thread that was never sampled. False: nothing was
 * recorded. */
static bool push_unseen(const struct sampled_thread *thread, int64_t ns,
                        enum ring_unseen_cause cause) {
    char name[16];
    if (ns <= 0)
        return false;
    if (!thread->name_sent) {
        procfs_task_name(thread->tid, name);
        if (!ring_push_thread(&handler_state.rings, thread->tid, name, 0, "", (uint64_t)ns))
            return false;
    }
    return ring_push_unseen(&handler_state.rings, thread->tid, (uint64_t)ns, cause);
}

static void report(struct sampled_thread *thread, int64_t due, enum ring_unseen_cause cause) {
    if (push_unseen(thread, due, cause))
        atomic_fetch_add(&thread->reported_ns, (uint64_t)due);
}

/* CPU time that no record covers. A thread whose clock has not ticked since it was armed counts
 * from restart_ns. */
static int64_t due_now(struct sampled_thread *thread) {
    int64_t cpu = handler_clock_ns(THREAD_CPU_CLOCK(thread->tid));
    int64_t restart = atomic_load(&thread->restart_ns);
    if (!restart)
        return period_due_ns(thread, cpu);
    return cpu - restart - (int64_t)atomic_load(&thread->reported_ns);
}

/* A held thread gets no clock, and its time is reported as unseen. start: NULL for a thread that
 * runs already. */
static void arm(struct sampled_thread *thread, const struct unwind_registers *start) {
    static const struct clock_plan none = {.clock = SAMPLE_CLOCK_NONE, .no_perf_fallback = true};
    bool is_held = held_reasons(thread->tid) != 0;
    clock_arm(thread, is_held ? &none : &plan, atomic_load(&handler_state.period_ns),
              is_held ? NULL : start);
}

static bool differ(const struct procfs_seccomp *filters) {
    return filters->mode != own_filters.mode || filters->filters != own_filters.filters;
}

/* Whether a thread has filters that the control thread does not have and whose programs the guest
 * has not read. In a chroot they cannot be counted, so there a thread counts as filtered if any
 * thread is. A filter for all threads changes the control thread's own number, too. */
static bool has_unknown_filter(uint32_t tid) {
    struct procfs_seccomp filters;
    if (held_has_harmless_filter(tid))
        return false;
    if (!procfs_task_seccomp(tid, &filters))
        return held_count(HOLD_FILTER) > 0;
    if (differ(&filters))
        procfs_task_seccomp(own_tid, &own_filters);
    return filters.mode == SECCOMP_MODE_STRICT || differ(&filters);
}

/* What a thread has used since the guest's start, of its whole CPU time. */
static int64_t past_ns(uint32_t tid, int64_t used_ns) {
    int64_t age_ns = handler_clock_ns(CLOCK_MONOTONIC) - start_ns;
    if (!counts_past || has_sampled || age_ns > YOUNG_NS)
        return 0;
    if (tid == handler_state.pid && start_cpu_ns > LOADING_NS)
        used_ns -= start_cpu_ns; /* another program ran before exec */
    return used_ns < age_ns ? used_ns : age_ns;
}

static void add_thread(uint32_t tid) {
    struct sampled_thread *thread = sampled_threads_add(tid);
    if (!thread)
        return;
    found++;
    thread->last_scan = scan;
    blocked_enter(thread);
    int64_t before = handler_clock_ns(THREAD_CPU_CLOCK(tid));
    if (has_unknown_filter(tid))
        held_add(tid, HOLD_FILTER);
    arm(thread, NULL);
    if (first_scan)
        push_unseen(thread, past_ns(tid, before), RING_UNSEEN_BEFORE);
    else
        push_unseen(thread, before, RING_UNSEEN_SHORT);
}

static void on_task(uint32_t tid, void *context) {
    struct sampled_thread *thread = handler_find_thread(tid);
    if (thread)
        thread->last_scan = scan;
    else if (tid != own_tid)
        add_thread(tid);
}

static void remove_ended(struct sampled_thread *thread) {
    clock_disarm(thread);
    blocked_leave(thread, true);
    sampled_threads_remove(thread);
}

/* Removes threads that ended without threads_leave. */
static void remove_all_ended(void) {
    for (uint32_t i = 0; i < sampled_threads_limit(); i++) {
        struct sampled_thread *thread = &handler_state.threads[i];
        if (thread->tid && thread->last_scan != scan &&
            system_call3(SYS_tgkill, handler_state.pid, thread->tid, 0) == -ESRCH)
            remove_ended(thread);
    }
    held_forget_ended(handler_state.pid);
}

/* A thread that is created while the directory is read may be missed, so passes are repeated until
 * one finds nothing new. */
static void scan_tasks(void) {
    for (uint32_t pass = 0; pass < SCAN_PASSES; pass++) {
        scan++;
        found = 0;
        if (!chroot_each_thread(on_task, NULL))
            return;
        if (found == 0)
            break;
    }
    remove_all_ended();
}

void threads_exclude_self(void) {
    uint64_t mask;
    sampled_threads_lock(&mask);
    own_tid = (uint32_t)raw_gettid();
    sampled_threads_unlock(&mask);
}

void threads_note_start(void) {
    has_sampled = false;
    start_ns = handler_clock_ns(CLOCK_MONOTONIC);
    start_cpu_ns = handler_clock_ns(THREAD_CPU_CLOCK(handler_state.pid));
}

void threads_count_past(bool wanted) {
    counts_past = wanted;
}

void threads_open(const struct clock_plan *chosen, uint64_t period_ns) {
    uint64_t mask;
    sampled_threads_lock(&mask);
    plan = *chosen;
    own_tid = (uint32_t)raw_gettid();
    procfs_task_seccomp(own_tid, &own_filters);
    atomic_store(&handler_state.period_ns, period_ns);
    atomic_store(&handler_state.process_last_ns,
                 (uint64_t)handler_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    atomic_store(&handler_state.sampling, true);
    first_scan = true;
    scan_tasks();
    first_scan = false;
    has_sampled = true;
    sampled_threads_unlock(&mask);
}

void threads_change(uint64_t period_ns) {
    uint64_t mask;
    sampled_threads_lock(&mask);
    atomic_store(&handler_state.period_ns, period_ns);
    for (uint32_t i = 0; i < sampled_threads_limit(); i++)
        if (handler_state.threads[i].tid)
            clock_change(&handler_state.threads[i], period_ns);
    sampled_threads_unlock(&mask);
}

void threads_replan(const struct clock_plan *chosen) {
    uint64_t mask;
    sampled_threads_lock(&mask);
    plan = *chosen;
    for (uint32_t i = 0; i < sampled_threads_limit(); i++) {
        struct sampled_thread *thread = &handler_state.threads[i];
        if (!thread->tid || thread->clock == chosen->clock || held_reasons(thread->tid))
            continue;
        clock_disarm(thread);
        if (thread->clock == SAMPLE_CLOCK_NONE)
            report(thread, due_now(thread), RING_UNSEEN_NO_CLOCK);
        arm(thread, NULL);
    }
    sampled_threads_unlock(&mask);
}

void threads_plan_new(const struct clock_plan *chosen) {
    uint64_t mask;
    sampled_threads_lock(&mask);
    plan = *chosen;
    sampled_threads_unlock(&mask);
}

static enum ring_unseen_cause cause_of(const struct sampled_thread *thread) {
    if (thread->clock != SAMPLE_CLOCK_NONE && is_signal_blocked(thread))
        return RING_UNSEEN_BLOCKED;
    return thread->clock == SAMPLE_CLOCK_PERF && thread->user_only ? RING_UNSEEN_KERNEL
                                                                   : RING_UNSEEN_NO_CLOCK;
}

/* Reports a thread's unseen time at its end. A remainder of up to two periods is normal, since the
 * first phase is random; more was never sampled. */
static void report_rest(struct sampled_thread *thread) {
    if (thread->clock == SAMPLE_CLOCK_PROCESS)
        return;
    int64_t due = due_now(thread);
    if (due <= 2 * (int64_t)thread->period_ns + UNSEEN_MIN_NS)
        return;
    report(thread, due, cause_of(thread));
}

void threads_close(void) {
    uint64_t mask;
    sampled_threads_lock(&mask);
    for (uint32_t i = 0; i < sampled_threads_limit(); i++)
        if (handler_state.threads[i].tid) {
            clock_disarm(&handler_state.threads[i]);
            report_rest(&handler_state.threads[i]);
        }
    atomic_store(&handler_state.sampling, false);
    for (uint32_t i = 0; i < sampled_threads_limit(); i++)
        if (handler_state.threads[i].tid)
            sampled_threads_remove(&handler_state.threads[i]);
    sampled_threads_unlock(&mask);
}

/* Compares a thread's CPU clock with its samples. A thread in a long system call has much due and
 * records it at its end. So time is reported only for a blocked signal, a missing clock, or a clock
 * that does not tick in the kernel. */
static void check_clock(struct sampled_thread *thread) {
    uint64_t counted = atomic_load(&thread->counted_ns);
    bool is_silent = counted == thread->checked_counted_ns;
    thread->checked_counted_ns = counted;
    if (!is_silent || thread->clock == SAMPLE_CLOCK_PROCESS || atomic_load(&thread->in_handler))
        return;
    int64_t due = due_now(thread);
    if (due <= 4 * (int64_t)thread->period_ns + UNSEEN_MIN_NS)
        return;
    if (thread->clock == SAMPLE_CLOCK_NONE || thread->user_only || is_signal_blocked(thread))
        report(thread, due, cause_of(thread));
}

void threads_look(void) {
    uint64_t mask;
    sampled_threads_lock(&mask);
    scan_tasks();
    uint32_t limit = sampled_threads_limit();
    for (uint32_t i = 0; i < limit && i < CLOCK_READS; i++) {
        cursor = cursor + 1 < limit ? cursor + 1 : 0;
        if (handler_state.threads[cursor].tid)
            check_clock(&handler_state.threads[cursor]);
    }
    sampled_threads_unlock(&mask);
}

/* Whether a new thread may arm its own clock. If there are filters, it is left to the next scan,
 * which reads whether it has inherited one. */
static bool may_enter(uint32_t tid) {
    return atomic_load(&handler_state.sampling) && held_count(HOLD_FILTER) == 0 &&
           !handler_find_thread(tid);
}

void threads_enter(struct walk_stack stack, const struct unwind_registers *start) {
    uint64_t mask;
    if (held_from_calls())
        return;
    sampled_threads_lock(&mask);
    uint32_t tid = (uint32_t)raw_gettid();
    held_remove(tid, HOLD_STACK | FILTER_IS_HARMLESS); /* of an earlier thread with that number */
    if (held_own)
        held_add(tid, held_own);
    struct sampled_thread *thread = may_enter(tid) ? sampled_threads_add(tid) : NULL;
    if (thread) {
        thread->last_scan = scan;
        thread->stack = stack;
        blocked_enter(thread);
        arm(thread, start);
    }
    sampled_threads_unlock(&mask);
}

/* Stops or starts the clock of the calling thread, as its reasons demand. */
static void follow_reasons(uint32_t tid) {
    struct sampled_thread *thread = handler_find_thread(tid);
    bool is_held = held_reasons(tid) != 0;
    if (!thread || is_held == (thread->clock == SAMPLE_CLOCK_NONE))
        return;
    if (thread->clock == SAMPLE_CLOCK_PROCESS)
        clock_process(0);
    if (is_held)
        clock_disarm(thread);
    else
        report(thread, due_now(thread), RING_UNSEEN_NO_CLOCK);
    arm(thread, NULL);
}

static void change_reasons(unsigned reasons, bool is_added) {
    uint64_t mask;
    sampled_threads_lock(&mask);
    uint32_t tid = (uint32_t)raw_gettid();
    held_own = is_added ? held_own | reasons : held_own & ~reasons;
    if (is_added)
        held_add(tid, reasons);
    else
        held_remove(tid, reasons);
    follow_reasons(tid);
    sampled_threads_unlock(&mask);
}

void threads_hold(unsigned reasons) {
    change_reasons(reasons, true);
}

void threads_release(unsigned reasons) {
    change_reasons(reasons, false);
}

/* A tick that is due by now is delivered before clock_disarm returns, and finds the entry in
 * use. */
void threads_leave(void) {
    uint64_t mask;
    if (held_from_calls())
        return; /* the next scan notices its end */
    uint32_t tid = (uint32_t)raw_gettid();
    if (!handler_find_thread(tid) && !held_own)
        return;
    sampled_threads_lock(&mask);
    held_remove(tid, held_own);
    struct sampled_thread *thread = handler_find_thread(tid);
    if (thread) {
        clock_disarm(thread);
        report_rest(thread);
        blocked_leave(thread, false);
        sampled_threads_remove(thread);
    }
    sampled_threads_unlock(&mask);
}

/* Takes back a tick that is pending because the thread has the signal blocked. Another SIGTRAP is
 * queued again. */
static void take_back_tick(void) {
    uint64_t trap = 1ull << (SIGTRAP - 1);
    struct timespec at_once = {0, 0};
    siginfo_t info;
    if (system_call(SYS_rt_sigtimedwait, (long)&trap, (long)&info, (long)&at_once, 8, 0) ==
            SIGTRAP &&
        !tick_is_ours(&info))
        system_call(SYS_rt_tgsigqueueinfo, handler_state.pid, raw_gettid(), SIGTRAP, (long)&info,
                    0);
}

void threads_hold_own_clock(void) {
    if (!atomic_load(&handler_state.sampling) || held_from_calls())
        return;
    struct sampled_thread *thread = handler_find_thread((uint32_t)raw_gettid());
    int fd = thread ? atomic_load(&thread->fd) : -1;
    if (fd >= 0) {
        system_call3(SYS_ioctl, fd, PERF_EVENT_IOC_DISABLE, 0);
        take_back_tick();
    }
    if (thread && thread->clock == SAMPLE_CLOCK_PROCESS)
        clock_process(0);
}

void threads_release_own_clock(void) {
    if (!atomic_load(&handler_state.sampling) || held_from_calls())
        return;
    struct sampled_thread *thread = handler_find_thread((uint32_t)raw_gettid());
    int fd = thread ? atomic_load(&thread->fd) : -1;
    if (fd >= 0)
        system_call3(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
    if (thread && thread->clock == SAMPLE_CLOCK_PROCESS)
        clock_process(atomic_load(&handler_state.period_ns));
}

uint32_t threads_count(void) {
    return sampled_threads_count();
}

static uint32_t count_with(enum sample_clock clock) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < sampled_threads_limit(); i++) {
        const struct sampled_thread *thread = &handler_state.threads[i];
        count += thread->tid && thread->clock == clock && !held_reasons(thread->tid);
    }
    return count;
}

static void note_count(char *note, size_t size, uint32_t count, const char *words) {
    if (count == 0)
        return;
    append_text(note, size, *note ? "; " : "");
    append_number(note, size, count);
    append_text(note, size, count == 1 ? " thread " : " threads ");
    append_text(note, size, words);
}

void threads_note(char *note, size_t size) {
    uint64_t mask;
    sampled_threads_lock(&mask);
    if (plan.clock == SAMPLE_CLOCK_PERF)
        note_count(note, size, count_with(SAMPLE_CLOCK_TIMER), "by timer (RLIMIT_NOFILE)");
    note_count(note, size, count_with(SAMPLE_CLOCK_NONE), "without a clock");
    note_count(note, size, held_count(HOLD_STACK),
               "not sampled: the alternate signal stack is too small");
    note_count(note, size, held_count(HOLD_FILTER),
               "not sampled: a seccomp filter may kill for the guest's calls");
    sampled_threads_unlock(&mask);
}

uint32_t threads_held(void) {
    uint64_t mask;
    sampled_threads_lock(&mask);
    uint32_t count = held_count(HOLD_STACK | HOLD_FILTER);
    sampled_threads_unlock(&mask);
    return count;
}

/* The child has one thread and no clocks. It closes its copies of the descriptors, which does not
 * affect the parent's events. */
void threads_after_fork(void) {
    atomic_store(&handler_state.sampling, false);
    blocked_after_fork();
    sampled_threads_after_fork();
    held_after_fork((uint32_t)raw_gettid());
    for (uint32_t i = 0; i < sampled_threads_limit(); i++) {
        struct sampled_thread *thread = &handler_state.threads[i];
        int fd = atomic_exchange(&thread->fd, -1);
        if (fd >= 0)
            clock_close(fd);
        atomic_store(&thread->timer, -1);
        atomic_store(&thread->in_handler, 0);
        if (thread->tid)
            sampled_threads_remove(thread);
    }
}
