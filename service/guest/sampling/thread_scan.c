/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/thread_scan.h"

#include "service/guest/process/chroot.h"
#include "service/guest/process/limits.h"
#include "service/guest/raw.h"
#include "service/guest/sampling/blocked_threads.h"
#include "service/guest/sampling/sampled_threads.h"
#include "service/guest/signal/push.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <time.h>

#define LOOKS        512u
#define UNSEEN_LEAST 20000000 /* ns; less is noise of the tick */
#define SCAN_PASSES  4u

static struct clock_plan plan;
static uint32_t scan;   /* number of the scan */
static uint32_t cursor; /* next seat whose clock is looked at */
static uint32_t found;  /* new threads of this pass */
static uint32_t own_tid;
static bool first_scan;

static bool signal_blocked(const struct room_seat *seat) {
    int signal = seat->clock == ROOM_CLOCK_TIMER ? room.timer_signal : SIGTRAP;
    return limits_task_mask(seat->tid, "SigBlk:") >> (signal - 1) & 1;
}

/* A thread that was never sampled has not told its name. */
static bool tell_unseen(const struct room_seat *seat, int64_t ns, enum ring_unseen_cause cause) {
    char name[16];
    if (ns <= 0)
        return false;
    if (!seat->announced) {
        limits_task_name(seat->tid, name);
        if (!ring_push_thread(&room.rings, seat->tid, name, 0, "", (uint64_t)ns))
            return false;
    }
    return ring_push_unseen(&room.rings, seat->tid, (uint64_t)ns, cause);
}

static void report(struct room_seat *seat, int64_t due, enum ring_unseen_cause cause) {
    if (tell_unseen(seat, due, cause))
        atomic_fetch_add(&seat->reported_ns, (uint64_t)due);
}

/* CPU time that no record stands for. A seat that was armed but has not ticked yet counts from
 * restart_ns. */
static int64_t due_now(struct room_seat *seat) {
    int64_t cpu = room_clock_ns(ROOM_CPU_OF(seat->tid));
    int64_t restart = atomic_load(&seat->restart_ns);
    if (!restart)
        return room_due(seat, cpu);
    return cpu - restart - (int64_t)atomic_load(&seat->reported_ns);
}

static void seat_thread(uint32_t tid) {
    struct room_seat *seat = seats_take(tid);
    if (!seat)
        return;
    found++;
    seat->scanned = scan;
    blocked_enter(seat);
    int64_t before = room_clock_ns(ROOM_CPU_OF(tid));
    clock_arm(seat, &plan, atomic_load(&room.period_ns), NULL);
    if (!first_scan)
        tell_unseen(seat, before, RING_UNSEEN_SHORT);
}

static void on_task(uint32_t tid, void *context) {
    struct room_seat *seat = room_find(tid);
    if (seat)
        seat->scanned = scan;
    else if (tid != own_tid)
        seat_thread(tid);
}

static void dismiss(struct room_seat *seat) {
    clock_disarm(seat);
    blocked_leave(seat, true);
    seats_give(seat);
}

/* Threads that ended without a word. */
static void drop_ended(void) {
    for (uint32_t i = 0; i < seats_limit(); i++) {
        struct room_seat *seat = &room.seats[i];
        if (seat->tid && seat->scanned != scan &&
            raw_call3(SYS_tgkill, room.pid, seat->tid, 0) == -ESRCH)
            dismiss(seat);
    }
}

/* A thread made while the directory was read may be missing from it; a second pass finds none, or
 * those. */
static void scan_tasks(void) {
    for (uint32_t pass = 0; pass < SCAN_PASSES; pass++) {
        scan++;
        found = 0;
        if (!jail_each_task(on_task, NULL))
            return;
        if (found == 0)
            break;
    }
    drop_ended();
}

void threads_take_over(void) {
    uint64_t mask;
    seats_lock(&mask);
    own_tid = (uint32_t)raw_gettid();
    seats_unlock(&mask);
}

void threads_open(const struct clock_plan *chosen, uint64_t period_ns) {
    uint64_t mask;
    seats_lock(&mask);
    plan = *chosen;
    own_tid = (uint32_t)raw_gettid();
    atomic_store(&room.period_ns, period_ns);
    atomic_store(&room.process_last_ns, (uint64_t)room_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    atomic_store(&room.open, true);
    first_scan = true;
    scan_tasks();
    first_scan = false;
    seats_unlock(&mask);
}

void threads_change(uint64_t period_ns) {
    uint64_t mask;
    seats_lock(&mask);
    atomic_store(&room.period_ns, period_ns);
    for (uint32_t i = 0; i < seats_limit(); i++)
        if (room.seats[i].tid)
            clock_change(&room.seats[i], period_ns);
    seats_unlock(&mask);
}

void threads_replan(const struct clock_plan *chosen) {
    uint64_t mask;
    seats_lock(&mask);
    plan = *chosen;
    for (uint32_t i = 0; i < seats_limit(); i++) {
        struct room_seat *seat = &room.seats[i];
        if (!seat->tid || seat->clock == chosen->clock)
            continue;
        clock_disarm(seat);
        clock_arm(seat, &plan, atomic_load(&room.period_ns), NULL);
    }
    seats_unlock(&mask);
}

static enum ring_unseen_cause why_unseen(const struct room_seat *seat) {
    if (seat->clock != ROOM_CLOCK_NONE && signal_blocked(seat))
        return RING_UNSEEN_BLOCKED;
    return seat->clock == ROOM_CLOCK_PERF && seat->user_only ? RING_UNSEEN_KERNEL
                                                             : RING_UNSEEN_NO_CLOCK;
}

/* The last word on a thread: a rest of up to two periods is what a random first phase stands for,
 * more was never shown. */
static void settle(struct room_seat *seat) {
    if (seat->clock == ROOM_CLOCK_PROCESS)
        return;
    int64_t due = due_now(seat);
    if (due <= 2 * (int64_t)seat->period_ns + UNSEEN_LEAST)
        return;
    report(seat, due, why_unseen(seat));
}

void threads_close(void) {
    uint64_t mask;
    seats_lock(&mask);
    for (uint32_t i = 0; i < seats_limit(); i++)
        if (room.seats[i].tid) {
            clock_disarm(&room.seats[i]);
            settle(&room.seats[i]);
        }
    atomic_store(&room.open, false);
    for (uint32_t i = 0; i < seats_limit(); i++)
        if (room.seats[i].tid)
            seats_give(&room.seats[i]);
    seats_unlock(&mask);
}

/* One thread's CPU clock against its samples. A thread inside a long system call has much due and
 * will show it by itself when it comes out; so only a blocked signal, a missing clock, or kernel
 * time under a user-only clock is reported. */
static void look_at(struct room_seat *seat) {
    uint64_t counted = atomic_load(&seat->counted_ns);
    bool silent = counted == seat->looked_counted_ns;
    seat->looked_counted_ns = counted;
    if (!silent || seat->clock == ROOM_CLOCK_PROCESS || atomic_load(&seat->inside))
        return;
    int64_t due = due_now(seat);
    if (due <= 4 * (int64_t)seat->period_ns + UNSEEN_LEAST)
        return;
    if (seat->clock == ROOM_CLOCK_NONE || seat->user_only || signal_blocked(seat))
        report(seat, due, why_unseen(seat));
}

void threads_look(void) {
    uint64_t mask;
    seats_lock(&mask);
    scan_tasks();
    uint32_t limit = seats_limit();
    for (uint32_t i = 0; i < limit && i < LOOKS; i++) {
        cursor = cursor + 1 < limit ? cursor + 1 : 0;
        if (room.seats[cursor].tid)
            look_at(&room.seats[cursor]);
    }
    seats_unlock(&mask);
}

void threads_enter(struct walk_stack stack, const struct walk_registers *birth) {
    uint64_t mask;
    seats_lock(&mask);
    uint32_t tid = (uint32_t)raw_gettid();
    struct room_seat *seat = atomic_load(&room.open) && !room_find(tid) ? seats_take(tid) : NULL;
    if (seat) {
        seat->scanned = scan;
        seat->stack = stack;
        blocked_enter(seat);
        clock_arm(seat, &plan, atomic_load(&room.period_ns), birth);
    }
    seats_unlock(&mask);
}

/* A tick that is due by now comes before clock_disarm returns, and finds the seat still there. */
void threads_leave(void) {
    uint64_t mask;
    struct room_seat *seat = room_find((uint32_t)raw_gettid());
    if (!seat)
        return;
    seats_lock(&mask);
    seat = room_find((uint32_t)raw_gettid());
    if (seat) {
        clock_disarm(seat);
        settle(seat);
        blocked_leave(seat, false);
        seats_give(seat);
    }
    seats_unlock(&mask);
}

/* Takes back a tick that was signalled while the thread had it masked. Another's signal is queued
 * again. */
static void take_back_tick(void) {
    uint64_t trap = 1ull << (SIGTRAP - 1);
    struct timespec at_once = {0, 0};
    siginfo_t info;
    if (raw_call(SYS_rt_sigtimedwait, (long)&trap, (long)&info, (long)&at_once, 8, 0) == SIGTRAP &&
        !room_is_tick(&info))
        raw_call(SYS_rt_tgsigqueueinfo, room.pid, raw_gettid(), SIGTRAP, (long)&info, 0);
}

void threads_hold_own_clock(void) {
    if (!atomic_load(&room.open))
        return;
    struct room_seat *seat = room_find((uint32_t)raw_gettid());
    int fd = seat ? atomic_load(&seat->fd) : -1;
    if (fd >= 0) {
        raw_call3(SYS_ioctl, fd, PERF_EVENT_IOC_DISABLE, 0);
        take_back_tick();
    }
    if (seat && seat->clock == ROOM_CLOCK_PROCESS)
        clock_process(0);
}

void threads_release_own_clock(void) {
    if (!atomic_load(&room.open))
        return;
    struct room_seat *seat = room_find((uint32_t)raw_gettid());
    int fd = seat ? atomic_load(&seat->fd) : -1;
    if (fd >= 0)
        raw_call3(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
    if (seat && seat->clock == ROOM_CLOCK_PROCESS)
        clock_process(atomic_load(&room.period_ns));
}

uint32_t threads_count(void) {
    return seats_count();
}

uint32_t threads_with(enum room_clock clock) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < seats_limit(); i++)
        count += room.seats[i].tid && room.seats[i].clock == clock;
    return count;
}

void threads_note(char *note, size_t size, enum room_clock clock, const char *words) {
    uint32_t count = threads_with(clock);
    if (count == 0)
        return;
    limits_append(note, size, *note ? "; " : "");
    limits_append_number(note, size, count);
    limits_append(note, size, words);
}

/* The child has no clock and one thread; its copies of the descriptors are closed, the parent's
 * events live on. */
void threads_after_fork(void) {
    atomic_store(&room.open, false);
    blocked_after_fork();
    seats_after_fork();
    for (uint32_t i = 0; i < seats_limit(); i++) {
        struct room_seat *seat = &room.seats[i];
        int fd = atomic_exchange(&seat->fd, -1);
        if (fd >= 0)
            clock_close(fd);
        atomic_store(&seat->timer, -1);
        atomic_store(&seat->inside, 0);
        if (seat->tid)
            seats_give(seat);
    }
}
