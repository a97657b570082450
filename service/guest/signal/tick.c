/* SPDX-License-Identifier: Apache-2.0
 *
 * One tick. The clock's signal names the seat; the handler walks the stack into a record of the
 * thread's ring and pays attention to what the tick is worth:
 *
 *     CPU time   |----p----|----p----|-------------3p-------------|----p----|
 *     ticks                x         x    (lost in the kernel)    x         x
 *     weight               p         p                            3p        p
 *
 * Ticks get lost: two that fall into one system call become one signal, a thread may block it, a
 * slow clock fires late. So the weight comes from the thread's CPU clock: what is due is its
 * reading less all that was counted before, and a rest below half a period is carried on. That read
 * costs 0.3 us and is left out where nothing can have been lost: the wall clock, which is read
 * anyway, has moved less than one and a half periods. */
#include "service/guest/signal/handler_state.h"

#include "service/guest/raw.h"
#include "service/guest/signal/bounds.h"
#include "service/guest/signal/chain.h"
#include "service/guest/signal/push.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define CODE_PERF  6      /* TRAP_PERF, which this glibc does not name */
#define LEAST_NS   25000u /* perf's timer must leave us time to get out of here */
#define PERF_ASYNC 1u     /* TRAP_PERF_FLAG_ASYNC: was blocked when the tick came */

/* What the kernel puts behind si_addr for TRAP_PERF. */
struct perf_info {
    uint64_t head[3];
    uint64_t data;
    uint32_t type;
    uint32_t flags;
};

static uint64_t now_ns(void) {
    return (uint64_t)room_clock_ns(CLOCK_MONOTONIC);
}

/* Whether the tick may stand for something else than one period. */
static bool may_differ(const struct room_seat *seat, uint64_t gap) {
    return gap > seat->period_ns + seat->period_ns / 2 || seat->until_renewal <= 1 ||
           seat->odd_span || seat->clock != ROOM_CLOCK_PERF ||
           atomic_load_explicit(&seat->restart_ns, memory_order_relaxed);
}

/* How many periods this tick stands for. 0: it came early, which only perf's clock does, when the
 * hypervisor had the CPU; *due_ns tells how much of a period there is. A thread's first tick is
 * held to its phase exactly: many threads have no other. */
static uint64_t count_periods(struct room_seat *seat, uint64_t now, uint64_t *due_ns) {
    uint64_t gap = now - seat->last_ns;
    seat->last_ns = now;
    if (!may_differ(seat, gap))
        return 1;
    int64_t restart = atomic_exchange_explicit(&seat->restart_ns, 0, memory_order_acquire);
    if (restart) {
        seat->base_ns =
            restart - (int64_t)atomic_load_explicit(&seat->counted_ns, memory_order_relaxed);
        seat->exact = true;
    }
    int64_t due = room_due(seat, room_clock_ns(CLOCK_THREAD_CPUTIME_ID));
    *due_ns = due > 0 ? (uint64_t)due : 0;
    return room_periods(seat, *due_ns);
}

/* An event that was armed for one tick has stopped at it, and is enabled again. */
static void set_period(struct room_seat *seat, uint64_t period) {
    int fd = atomic_load_explicit(&seat->fd, memory_order_acquire);
    int timer = atomic_load_explicit(&seat->timer, memory_order_acquire);
    struct timespec span = {(time_t)(period / 1000000000), (long)(period % 1000000000)};
    struct itimerspec every = {span, span};
    if (fd >= 0)
        raw_call3(SYS_ioctl, fd, PERF_EVENT_IOC_PERIOD, (long)&period);
    if (fd >= 0 && seat->once)
        raw_call3(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
    seat->once = false;
    if (timer >= 0)
        raw_call(SYS_timer_settime, timer, 0, (long)&every, 0, 0);
}

static void renew_period(struct room_seat *seat) {
    uint64_t nominal = atomic_load_explicit(&room.period_ns, memory_order_relaxed);
    if (room_next_period(seat, nominal) || seat->odd_span)
        set_period(seat, seat->period_ns);
    seat->odd_span = false;
}

/* Waits for the rest of the period. */
static void wait_on(struct room_seat *seat, uint64_t due_ns) {
    uint64_t rest = seat->period_ns > due_ns ? seat->period_ns - due_ns : 0;
    set_period(seat, rest > LEAST_NS ? rest : LEAST_NS);
    seat->odd_span = true;
}

static bool push_thread(struct room_seat *seat, uint64_t weight_ns) {
    uint32_t label = room_tags.label <= ROOM_LABELS ? room_tags.label : 0;
    const char *text = label ? room.labels[label - 1].text : "";
    seat->label_told = room_tags.label;
    seat->until_told = ROOM_TOLD_TICKS;
    return ring_push_thread(&room.rings, seat->tid, seat->name, label, text, weight_ns);
}

/* Tells the thread's name and label before its first sample, whenever they have changed, and now
 * and then: sonded may have lost a record. False: it could not, and the sample must be dropped, too
 * (that is counted). */
static bool announce(struct room_seat *seat, uint64_t weight_ns) {
    bool told = seat->announced && seat->label_told == room_tags.label && seat->until_told-- > 0;
    if (told && seat->until_name-- > 0)
        return true;
    char name[16] = "";
    raw_call3(SYS_prctl, PR_GET_NAME, (long)name, 0);
    seat->until_name = ROOM_NAME_TICKS;
    if (told && memcmp(name, seat->name, sizeof name) == 0)
        return true;
    memcpy(seat->name, name, sizeof name);
    return seat->announced = push_thread(seat, weight_ns);
}

static void push_sample(const struct room_seat *seat, const uint64_t *pcs,
                        const struct walk_result *walked, uint32_t generation, uint64_t now,
                        uint64_t weight_ns) {
    uint32_t size = (uint32_t)(sizeof(struct ring_sample) + walked->depth * sizeof *pcs);
    struct ring_record *record = ring_reserve(&room.rings, seat->tid, size, weight_ns);
    if (!record)
        return;
    struct ring_sample *sample = (struct ring_sample *)record;
    record->kind = RING_RECORD_SAMPLE;
    record->depth = (uint16_t)walked->depth;
    record->generation = generation;
    sample->time_ns = now;
    sample->weight_ns = weight_ns;
    sample->request = room_tags.request;
    sample->label = room_tags.label;
    sample->end = walked->end;
    sample->fp_frames = walked->fp_frames;
    sample->gap_at = walked->gap_at;
    memcpy(sample->pcs, pcs, walked->depth * sizeof *pcs);
    ring_publish(record, size);
}

static const struct room_map *map_for(const struct room_seat *seat, uint64_t weight_ns) {
    const struct room_map *map = atomic_load_explicit(&room.map, memory_order_acquire);
    if (seat->cache && map)
        return map;
    ring_drop(&room.rings, RING_DROP_NO_CONTEXT, weight_ns);
    return NULL;
}

static void take_sample(struct room_seat *seat, const ucontext_t *context, uint64_t now,
                        uint64_t weight_ns) {
    uint64_t pcs[RING_MAX_DEPTH];
    struct walk_stack extra;
    struct walk_bounds bounds;
    struct walk_result walked;
    const struct room_map *map = map_for(seat, weight_ns);
    if (!map)
        return;
    bounds_find(seat, context, &extra, &bounds);
    walk_from_context(context, &map->walk, seat->cache, &bounds, pcs,
                      atomic_load_explicit(&room.max_depth, memory_order_relaxed), &walked);
    if (announce(seat, weight_ns))
        push_sample(seat, pcs, &walked, map->generation, now, weight_ns);
    room_tell_of_miss(&map->walk, pcs, &walked);
}

static void add(_Atomic uint64_t *sum, uint64_t more) {
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

void room_show_start(struct room_seat *seat, const struct walk_registers *birth,
                     uint64_t weight_ns) {
    uint64_t pcs[RING_MAX_DEPTH];
    struct walk_bounds bounds = {.thread = seat->stack};
    struct walk_result walked;
    const struct room_map *map = map_for(seat, weight_ns);
    add(&seat->counted_ns, weight_ns);
    if (!map)
        return;
    walk_from_registers(birth, &map->walk, seat->cache, &bounds, pcs, RING_MAX_DEPTH, &walked);
    if (announce(seat, weight_ns))
        push_sample(seat, pcs, &walked, map->generation, now_ns(), weight_ns);
}

/* Enters the seat unless the signal is a late one. The exchange is ordered before the look at
 * `open`, as the control thread's store to `open` is before its look at `inside`: one of the two
 * sees the other. */
static bool enter(struct room_seat *seat, uint32_t incarnation, uint64_t weight_ns) {
    if (atomic_load_explicit(&seat->incarnation, memory_order_acquire) != incarnation)
        return false;
    if (atomic_exchange(&seat->inside, 1)) {
        ring_drop(&room.rings, RING_DROP_NESTED, weight_ns);
        return false;
    }
    if (atomic_load(&room.open) && atomic_load(&seat->incarnation) == incarnation)
        return true;
    atomic_store_explicit(&seat->inside, 0, memory_order_release);
    return false;
}

/* The wall clock is the only cheap one here; of a handler that lost the CPU in between it tells
 * nothing. Those are counted, and taken for as long as the others are (ring.h). */
static void leave(struct room_seat *seat, uint64_t since) {
    uint64_t took = now_ns() - since;
    if (took < ROOM_LONG_NS)
        add(&seat->handler_ns, took);
    else
        add(&seat->handler_long, 1);
    add(&seat->handler_count, 1);
    atomic_store_explicit(&seat->inside, 0, memory_order_release);
}

/* `late`: the thread had the signal blocked, so what was lost was not spent where it stands now. */
static void on_tick(uint64_t ticket, const ucontext_t *context, bool late) {
    uint32_t number = ticket & 0xffff;
    if (number >= ROOM_SEATS || !room.seats)
        return;
    struct room_seat *seat = &room.seats[number];
    if (!enter(seat, (uint32_t)(ticket >> 16) & 0xffffff, seat->period_ns))
        return;
    uint64_t now = now_ns();
    uint64_t due_ns = 0, period = seat->period_ns;
    uint64_t periods = count_periods(seat, now, &due_ns);
    if (periods == 0) {
        wait_on(seat, due_ns);
        leave(seat, now);
        return;
    }
    seat->exact = false;
    add(&seat->counted_ns, periods * period);
    if (periods > 1 && (late || seat->user_only)) {
        ring_push_unseen(&room.rings, seat->tid, (periods - 1) * period,
                         late ? RING_UNSEEN_BLOCKED : RING_UNSEEN_KERNEL);
        periods = 1;
    }
    take_sample(seat, context, now, periods * period);
    renew_period(seat);
    leave(seat, now);
}

bool room_is_tick(const siginfo_t *info) {
    const struct perf_info *perf = (const struct perf_info *)info;
    return info->si_code == CODE_PERF && perf->data >> 40 == room.secret;
}

void room_on_trap(int signal, siginfo_t *info, void *context) {
    int saved = errno;
    const struct perf_info *perf = (const struct perf_info *)info;
    if (room_is_tick(info))
        on_tick(perf->data, context, perf->flags & PERF_ASYNC);
    else
        chain_pass_on(&chains[CHAIN_TRAP], signal, info, context);
    errno = saved;
}

void room_on_timer(int signal, siginfo_t *info, void *context) {
    int saved = errno;
    uint64_t ticket = (uint64_t)info->si_value.sival_ptr;
    if (info->si_code == SI_TIMER && ticket >> 40 == room.secret)
        on_tick(ticket, context, false);
    else
        chain_pass_on(&chains[CHAIN_TIMER], signal, info, context);
    errno = saved;
}

/* The process-wide clock: any thread may get the tick, and it stands for what the whole process
 * burned since the last. */
static void on_process_tick(const ucontext_t *context) {
    uint64_t now = now_ns(), cpu = (uint64_t)room_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t last = atomic_exchange(&room.process_last_ns, cpu);
    uint64_t weight = cpu > last ? cpu - last : 0;
    struct room_seat *seat = room_find((uint32_t)raw_gettid());
    if (!seat || !enter(seat, atomic_load(&seat->incarnation), weight)) {
        ring_drop(&room.rings, RING_DROP_NO_CONTEXT, weight);
        return;
    }
    add(&seat->counted_ns, weight);
    take_sample(seat, context, now, weight);
    leave(seat, now);
}

void room_on_prof(int signal, siginfo_t *info, void *context) {
    int saved = errno;
    atomic_fetch_add(&room.process_in, 1);
    bool mine = info->si_code == SI_KERNEL;
    if (mine && atomic_load(&room.open))
        on_process_tick(context);
    atomic_fetch_sub(&room.process_in, 1);
    if (!mine)
        chain_pass_on(&chains[CHAIN_PROF], signal, info, context);
    errno = saved;
}
