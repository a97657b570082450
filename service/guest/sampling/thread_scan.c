/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/thread_scan.h"

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
#include <sys/ioctl.h>
#include <time.h>

#define CLOCK_READS   512u     /* in one look */
#define UNSEEN_MIN_NS 20000000 /* less may be the inexactness of the ticks */
#define SCAN_PASSES   4u

static struct clock_plan plan;
static uint32_t scan;   /* number of the last scan */
static uint32_t cursor; /* index of the last thread whose clock was read */
static uint32_t found;  /* new threads in this pass */
static uint32_t own_tid;
static bool first_scan;

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

static void add_thread(uint32_t tid) {
    struct sampled_thread *thread = sampled_threads_add(tid);
    if (!thread)
        return;
    found++;
    thread->last_scan = scan;
    blocked_enter(thread);
    int64_t before = handler_clock_ns(THREAD_CPU_CLOCK(tid));
    clock_arm(thread, &plan, atomic_load(&handler_state.period_ns), NULL);
    if (!first_scan)
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
            raw_call3(SYS_tgkill, handler_state.pid, thread->tid, 0) == -ESRCH)
            remove_ended(thread);
    }
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

void threads_open(const struct clock_plan *chosen, uint64_t period_ns) {
    uint64_t mask;
    sampled_threads_lock(&mask);
    plan = *chosen;
    own_tid = (uint32_t)raw_gettid();
    atomic_store(&handler_state.period_ns, period_ns);
    atomic_store(&handler_state.process_last_ns,
                 (uint64_t)handler_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    atomic_store(&handler_state.sampling, true);
    first_scan = true;
    scan_tasks();
    first_scan = false;
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
        if (!thread->tid || thread->clock == chosen->clock)
            continue;
        clock_disarm(thread);
        clock_arm(thread, &plan, atomic_load(&handler_state.period_ns), NULL);
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

void threads_enter(struct walk_stack stack, const struct unwind_registers *start) {
    uint64_t mask;
    sampled_threads_lock(&mask);
    uint32_t tid = (uint32_t)raw_gettid();
    struct sampled_thread *thread =
        atomic_load(&handler_state.sampling) && !handler_find_thread(tid) ? sampled_threads_add(tid)
                                                                          : NULL;
    if (thread) {
        thread->last_scan = scan;
        thread->stack = stack;
        blocked_enter(thread);
        clock_arm(thread, &plan, atomic_load(&handler_state.period_ns), start);
    }
    sampled_threads_unlock(&mask);
}

/* A tick that is due by now is delivered before clock_disarm returns, and finds the entry in
 * use. */
void threads_leave(void) {
    uint64_t mask;
    struct sampled_thread *thread = handler_find_thread((uint32_t)raw_gettid());
    if (!thread)
        return;
    sampled_threads_lock(&mask);
    thread = handler_find_thread((uint32_t)raw_gettid());
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
    if (raw_call(SYS_rt_sigtimedwait, (long)&trap, (long)&info, (long)&at_once, 8, 0) == SIGTRAP &&
        !tick_is_ours(&info))
        raw_call(SYS_rt_tgsigqueueinfo, handler_state.pid, raw_gettid(), SIGTRAP, (long)&info, 0);
}

void threads_hold_own_clock(void) {
    if (!atomic_load(&handler_state.sampling))
        return;
    struct sampled_thread *thread = handler_find_thread((uint32_t)raw_gettid());
    int fd = thread ? atomic_load(&thread->fd) : -1;
    if (fd >= 0) {
        raw_call3(SYS_ioctl, fd, PERF_EVENT_IOC_DISABLE, 0);
        take_back_tick();
    }
    if (thread && thread->clock == SAMPLE_CLOCK_PROCESS)
        clock_process(0);
}

void threads_release_own_clock(void) {
    if (!atomic_load(&handler_state.sampling))
        return;
    struct sampled_thread *thread = handler_find_thread((uint32_t)raw_gettid());
    int fd = thread ? atomic_load(&thread->fd) : -1;
    if (fd >= 0)
        raw_call3(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
    if (thread && thread->clock == SAMPLE_CLOCK_PROCESS)
        clock_process(atomic_load(&handler_state.period_ns));
}

uint32_t threads_count(void) {
    return sampled_threads_count();
}

uint32_t threads_with(enum sample_clock clock) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < sampled_threads_limit(); i++)
        count += handler_state.threads[i].tid && handler_state.threads[i].clock == clock;
    return count;
}

void threads_note(char *note, size_t size, enum sample_clock clock, const char *words) {
    uint32_t count = threads_with(clock);
    if (count == 0)
        return;
    append_text(note, size, *note ? "; " : "");
    append_number(note, size, count);
    append_text(note, size, words);
}

/* The child has one thread and no clocks. It closes its copies of the descriptors, which does not
 * affect the parent's events. */
void threads_after_fork(void) {
    atomic_store(&handler_state.sampling, false);
    blocked_after_fork();
    sampled_threads_after_fork();
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
