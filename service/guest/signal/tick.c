/* SPDX-License-Identifier: Apache-2.0
 *
 * One tick. The cookie of the clock's signal names the thread; the handler walks the stack into a
 * record of the thread's ring and decides how much CPU time the tick stands for:
 *
 *     CPU time   |----p----|----p----|-------------3p-------------|----p----|
 *     ticks                x         x    (lost in the kernel)    x         x
 *     weight               p         p                            3p        p
 *
 * Ticks get lost: two that fall into one system call become one signal, a thread may block the
 * signal, and a slow clock fires late. So the weight comes from the thread's CPU clock: what is due
 * is its reading minus all that was counted before, rounded to whole periods (period_count); the
 * rest is carried on. Reading that clock takes 0.3 us. It is skipped if no tick can have been lost,
 * because the wall clock, which is read in any case, has moved less than one and a half periods. */
#include "service/guest/signal/tick.h"

#include "service/guest/raw.h"
#include "service/guest/signal/bounds.h"
#include "service/guest/signal/chain.h"
#include "service/guest/signal/period.h"
#include "service/guest/signal/push.h"
#include "service/guest/signal/span.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#define CODE_PERF  6      /* TRAP_PERF, which this glibc does not name */
#define MIN_NS     25000u /* a shorter period would tick before this handler has returned */
#define PERF_ASYNC 1u     /* TRAP_PERF_FLAG_ASYNC: the signal was blocked at the tick */

/* siginfo_t for TRAP_PERF: what follows si_addr. */
struct perf_info {
    uint64_t head[3];
    uint64_t data;
    uint32_t type;
    uint32_t flags;
};

static uint64_t now_ns(void) {
    return (uint64_t)handler_clock_ns(CLOCK_MONOTONIC);
}

/* Whether the tick may stand for more or less than one period. */
static bool may_differ(const struct sampled_thread *thread, uint64_t gap) {
    return gap > thread->period_ns + thread->period_ns / 2 || thread->until_renewal <= 1 ||
           thread->one_off_period || thread->clock != SAMPLE_CLOCK_PERF ||
           atomic_load_explicit(&thread->restart_ns, memory_order_relaxed);
}

/* How many periods this tick stands for (period_count). 0: it came early, and *due_ns is the CPU
 * time since the last period. */
static uint64_t count_periods(struct sampled_thread *thread, uint64_t now, uint64_t *due_ns) {
    uint64_t gap = now - thread->last_ns;
    thread->last_ns = now;
    if (!may_differ(thread, gap))
        return 1;
    int64_t restart = atomic_exchange_explicit(&thread->restart_ns, 0, memory_order_acquire);
    if (restart) {
        thread->base_ns =
            restart - (int64_t)atomic_load_explicit(&thread->counted_ns, memory_order_relaxed);
        thread->is_first_tick = true;
    }
    int64_t due = period_due_ns(thread, handler_clock_ns(CLOCK_THREAD_CPUTIME_ID));
    *due_ns = due > 0 ? (uint64_t)due : 0;
    return period_count(thread, *due_ns);
}

/* Also enables an event again that was armed for one tick. */
static void set_period(struct sampled_thread *thread, uint64_t period) {
    int fd = atomic_load_explicit(&thread->fd, memory_order_acquire);
    int timer = atomic_load_explicit(&thread->timer, memory_order_acquire);
    struct timespec span = {(time_t)(period / 1000000000), (long)(period % 1000000000)};
    struct itimerspec every = {span, span};
    if (fd >= 0)
        system_call3(SYS_ioctl, fd, PERF_EVENT_IOC_PERIOD, (long)&period);
    if (fd >= 0 && thread->one_shot)
        system_call3(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
    thread->one_shot = false;
    if (timer >= 0)
        system_call(SYS_timer_settime, timer, 0, (long)&every, 0, 0);
}

static void renew_period(struct sampled_thread *thread) {
    uint64_t nominal = atomic_load_explicit(&handler_state.period_ns, memory_order_relaxed);
    if (period_renew(thread, nominal) || thread->one_off_period)
        set_period(thread, thread->period_ns);
    thread->one_off_period = false;
}

/* Sets the next tick to the end of the period. */
static void finish_period(struct sampled_thread *thread, uint64_t due_ns) {
    uint64_t rest = thread->period_ns > due_ns ? thread->period_ns - due_ns : 0;
    set_period(thread, rest > MIN_NS ? rest : MIN_NS);
    thread->one_off_period = true;
}

static bool push_thread(struct sampled_thread *thread, uint64_t weight_ns) {
    uint32_t label = thread_tags.label <= THREAD_LABELS_MAX ? thread_tags.label : 0;
    const char *text = label ? handler_state.labels[label - 1].text : "";
    thread->sent_label = thread_tags.label;
    thread->until_name_repeat = NAME_REPEAT_TICKS;
    return ring_push_thread(&handler_state.rings, thread->tid, thread->name, label, text,
                            weight_ns);
}

/* Records the thread's name and label before its first sample, after a change, and now and then in
 * case sonded has lost them. False: there was no room, and the sample is dropped with the record,
 * which is counted. */
static bool push_name(struct sampled_thread *thread, uint64_t weight_ns) {
    bool is_sent = thread->name_sent && thread->sent_label == thread_tags.label &&
                   thread->until_name_repeat-- > 0;
    if (is_sent && thread->until_name_check-- > 0)
        return true;
    char name[16] = "";
    system_call3(SYS_prctl, PR_GET_NAME, (long)name, 0);
    thread->until_name_check = NAME_CHECK_TICKS;
    if (is_sent && memcmp(name, thread->name, sizeof name) == 0)
        return true;
    memcpy(thread->name, name, sizeof name);
    return thread->name_sent = push_thread(thread, weight_ns);
}

/* The number that the program gave, or that of the span. False as above. */
static bool push_request(const struct sampled_thread *thread, uint64_t weight_ns,
                         uint64_t *request) {
    *request = thread_tags.request;
    return *request || span_push(thread->tid, weight_ns, request);
}

static void push_sample(struct sampled_thread *thread, const uint64_t *pcs,
                        const struct walk_result *walked, uint32_t generation, uint64_t now,
                        uint64_t weight_ns) {
    uint32_t size = (uint32_t)(sizeof(struct ring_sample) + walked->depth * sizeof *pcs);
    uint64_t request;
    if (!push_name(thread, weight_ns) || !push_request(thread, weight_ns, &request))
        return;
    struct ring_record *record = ring_reserve(&handler_state.rings, thread->tid, size, weight_ns);
    if (!record)
        return;
    struct ring_sample *sample = (struct ring_sample *)record;
    record->kind = RING_RECORD_SAMPLE;
    record->depth = (uint16_t)walked->depth;
    record->generation = generation;
    sample->time_ns = now;
    sample->weight_ns = weight_ns;
    sample->request = request;
    sample->label = thread_tags.label;
    sample->end = walked->end;
    sample->fp_frames = walked->fp_frames;
    sample->gap_at = walked->gap_at;
    memcpy(sample->pcs, pcs, walked->depth * sizeof *pcs);
    ring_publish(record, size);
}

static const struct module_map *map_for(const struct sampled_thread *thread, uint64_t weight_ns) {
    const struct module_map *map = atomic_load_explicit(&handler_state.map, memory_order_acquire);
    if (thread->cache && map)
        return map;
    ring_drop(&handler_state.rings, RING_DROP_NO_CONTEXT, weight_ns);
    return NULL;
}

static void take_sample(struct sampled_thread *thread, const ucontext_t *context, uint64_t now,
                        uint64_t weight_ns) {
    uint64_t pcs[RING_MAX_DEPTH];
    struct walk_stack extra;
    struct walk_bounds bounds;
    struct walk_result walked;
    const struct module_map *map = map_for(thread, weight_ns);
    if (!map)
        return;
    bounds_find(thread, context, &extra, &bounds);
    walk_from_context(context, &map->walk, thread->cache, &bounds, pcs,
                      atomic_load_explicit(&handler_state.max_depth, memory_order_relaxed),
                      &walked);
    push_sample(thread, pcs, &walked, map->generation, now, weight_ns);
    handler_report_miss(&map->walk, pcs, &walked);
}

static void add(_Atomic uint64_t *sum, uint64_t more) {
    atomic_store_explicit(sum, atomic_load_explicit(sum, memory_order_relaxed) + more,
                          memory_order_relaxed);
}

void tick_record_start(struct sampled_thread *thread, const struct unwind_registers *birth,
                       uint64_t weight_ns) {
    uint64_t pcs[RING_MAX_DEPTH];
    struct walk_bounds bounds = {.thread = thread->stack};
    struct walk_result walked;
    const struct module_map *map = map_for(thread, weight_ns);
    add(&thread->counted_ns, weight_ns);
    if (!map)
        return;
    walk_from_registers(birth, &map->walk, thread->cache, &bounds, pcs, RING_MAX_DEPTH, &walked);
    push_sample(thread, pcs, &walked, map->generation, now_ns(), weight_ns);
}

static bool leaves_room(uint64_t sp, uint64_t low, uint64_t size) {
    return sp - low >= size || sp - low >= TICK_STACK;
}

/* Whether the handler may use the stack that the kernel has chosen: the alternate one, if the frame
 * lies there, or the thread's own. The frame begins with the return address, below the context. */
static bool has_room(const ucontext_t *context, struct walk_stack stack) {
    uint64_t sp = (uint64_t)context - sizeof(uint64_t);
    return leaves_room(sp, (uint64_t)context->uc_stack.ss_sp, context->uc_stack.ss_size) &&
           leaves_room(sp, stack.low, stack.high - stack.low);
}

/* Sets in_handler, unless the signal is a late one. The exchange comes before the load of
 * `sampling`, as the control thread's store to `sampling` comes before its loads of `in_handler`:
 * one of the two sees the other. */
static bool enter(struct sampled_thread *thread, uint32_t incarnation, uint64_t weight_ns) {
    if (atomic_load_explicit(&thread->incarnation, memory_order_acquire) != incarnation)
        return false;
    if (atomic_exchange(&thread->in_handler, 1)) {
        ring_drop(&handler_state.rings, RING_DROP_NESTED, weight_ns);
        return false;
    }
    if (atomic_load(&handler_state.sampling) && atomic_load(&thread->incarnation) == incarnation)
        return true;
    atomic_store_explicit(&thread->in_handler, 0, memory_order_release);
    return false;
}

/* Only the wall clock is cheap enough here, and it does not measure a handler that was preempted.
 * Such runs are counted, and estimated by the mean of the others (ring.h). */
static void leave(struct sampled_thread *thread, uint64_t since) {
    uint64_t took = now_ns() - since;
    if (took < HANDLER_PREEMPTED_NS)
        add(&thread->handler_ns, took);
    else
        add(&thread->preempted_runs, 1);
    add(&thread->handler_runs, 1);
    atomic_store_explicit(&thread->in_handler, 0, memory_order_release);
}

/* is_late: the thread had the signal blocked, so the time of lost ticks was not spent at the
 * current pc. */
static __attribute__((noinline)) void count_tick(struct sampled_thread *thread,
                                                 const ucontext_t *context, bool is_late) {
    uint64_t now = now_ns();
    uint64_t due_ns = 0, period = thread->period_ns;
    uint64_t periods = count_periods(thread, now, &due_ns);
    if (periods == 0) {
        finish_period(thread, due_ns);
        leave(thread, now);
        return;
    }
    thread->is_first_tick = false;
    add(&thread->counted_ns, periods * period);
    if (periods > 1 && (is_late || thread->user_only)) {
        ring_push_unseen(&handler_state.rings, thread->tid, (periods - 1) * period,
                         is_late ? RING_UNSEEN_BLOCKED : RING_UNSEEN_KERNEL);
        periods = 1;
    }
    take_sample(thread, context, now, periods * period);
    renew_period(thread);
    leave(thread, now);
}

/* Uses hardly any stack. The period is over as if it had been counted, also if no tick has counted
 * since the clock was armed. A timer that was set for another span keeps it until a tick has room:
 * such spans do not count. */
static void drop_tick(struct sampled_thread *thread) {
    int fd = atomic_load_explicit(&thread->fd, memory_order_acquire);
    int64_t restart = atomic_load_explicit(&thread->restart_ns, memory_order_relaxed);
    ring_drop(&handler_state.rings, RING_DROP_NO_STACK, thread->period_ns);
    if (fd >= 0 && thread->one_off_period) {
        system_call3(SYS_ioctl, fd, PERF_EVENT_IOC_PERIOD, (long)&thread->period_ns);
        thread->one_off_period = false;
    }
    if (fd >= 0 && thread->one_shot)
        system_call3(SYS_ioctl, fd, PERF_EVENT_IOC_ENABLE, 0);
    thread->one_shot = false;
    if (restart && !thread->one_off_period)
        atomic_compare_exchange_strong(&thread->restart_ns, &restart,
                                       restart + (int64_t)thread->period_ns);
    else if (!thread->one_off_period)
        add(&thread->counted_ns, thread->period_ns);
    atomic_store_explicit(&thread->in_handler, 0, memory_order_release);
}

static void on_tick(uint64_t cookie, const ucontext_t *context, bool is_late) {
    uint32_t number = cookie & 0xffff;
    if (number >= SAMPLED_THREADS_MAX || !handler_state.threads)
        return;
    struct sampled_thread *thread = &handler_state.threads[number];
    if (!enter(thread, (uint32_t)(cookie >> 16) & 0xffffff, thread->period_ns))
        return;
    if (has_room(context, thread->stack))
        count_tick(thread, context, is_late);
    else
        drop_tick(thread);
}

bool tick_is_ours(const siginfo_t *info) {
    const struct perf_info *perf = (const struct perf_info *)info;
    return info->si_code == CODE_PERF && perf->data >> 40 == handler_state.secret;
}

void tick_on_trap(int signal, siginfo_t *info, void *context) {
    int saved = errno;
    const struct perf_info *perf = (const struct perf_info *)info;
    if (tick_is_ours(info))
        on_tick(perf->data, context, perf->flags & PERF_ASYNC);
    else
        chain_pass_on(&chains[CHAIN_TRAP], signal, info, context);
    errno = saved;
}

void tick_on_timer(int signal, siginfo_t *info, void *context) {
    int saved = errno;
    uint64_t cookie = (uint64_t)info->si_value.sival_ptr;
    if (info->si_code == SI_TIMER && cookie >> 40 == handler_state.secret)
        on_tick(cookie, context, false);
    else
        chain_pass_on(&chains[CHAIN_TIMER], signal, info, context);
    errno = saved;
}

/* The process-wide clock: any thread may get the tick, which stands for the CPU time of the whole
 * process since the last one. */
static __attribute__((noinline)) void on_process_tick(const ucontext_t *context) {
    uint64_t now = now_ns(), cpu = (uint64_t)handler_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t last = atomic_exchange(&handler_state.process_last_ns, cpu);
    uint64_t weight = cpu > last ? cpu - last : 0;
    struct sampled_thread *thread = handler_find_thread((uint32_t)raw_gettid());
    if (!thread || !enter(thread, atomic_load(&thread->incarnation), weight)) {
        ring_drop(&handler_state.rings, RING_DROP_NO_CONTEXT, weight);
        return;
    }
    add(&thread->counted_ns, weight);
    take_sample(thread, context, now, weight);
    leave(thread, now);
}

void tick_on_prof(int signal, siginfo_t *info, void *context) {
    int saved = errno;
    atomic_fetch_add(&handler_state.process_handlers, 1);
    bool is_ours = info->si_code == SI_KERNEL, is_on = atomic_load(&handler_state.sampling);
    if (is_ours && is_on && has_room(context, (struct walk_stack){0, 0}))
        on_process_tick(context);
    else if (is_ours && is_on)
        ring_drop(&handler_state.rings, RING_DROP_NO_STACK, 0);
    atomic_fetch_sub(&handler_state.process_handlers, 1);
    if (!is_ours)
        chain_pass_on(&chains[CHAIN_PROF], signal, info, context);
    errno = saved;
}
