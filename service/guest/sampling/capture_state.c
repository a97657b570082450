/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/capture_state.h"

#include "service/guest/guest.h"
#include "service/guest/heap/alloc_backtrace.h"
#include "service/guest/link.h"
#include "service/guest/maps/maps_watch.h"
#include "service/guest/maps/module_map.h"
#include "service/guest/process/append.h"
#include "service/guest/process/limits.h"
#include "service/guest/raw.h"
#include "service/guest/sampling/blocked_threads.h"
#include "service/guest/sampling/clock.h"
#include "service/guest/sampling/install.h"
#include "service/guest/sampling/rings.h"
#include "service/guest/sampling/sampled_threads.h"
#include "service/guest/sampling/thread_scan.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define MS           1000000ll
#define LOOK_NS      (500 * MS)
#define ACCOUNT_NS   (1000 * MS)
#define TABLES_NS    (3000 * MS)
#define DRAIN_NS     (10000 * MS) /* a sonded that has not read all by then keeps its memory */
#define STUCK_NS     (10000 * MS)
#define LEAST_PERIOD (50 * 1000ull)
#define MOST_PERIOD  (10ull * 1000 * 1000 * 1000)
#define PARTS        16u /* mappings in one frame */

enum stage { IDLE, PREPARING, RUNNING, DRAINING };

static struct {
    enum stage stage;
    uint32_t sequence;
    uint64_t period_ns, wall_period_ns; /* wall_period_ns 0 = blocked threads are not looked at */
    enum sample_clock wanted;
    struct clock_plan plan;
    struct maps maps, next_maps;
    uint64_t generation;
    int64_t deadline_ns; /* of tables, of draining */
    int64_t look_ns, account_ns, maps_cost_ns;
    struct maps_watch watch;
    int64_t process_start_ns, own_start_ns; /* own: before the preparations */
    int64_t own_running_ns;                 /* after them */
    struct handler_cost handlers_before;    /* the capture */
    uint64_t read_bytes;
    int64_t read_ns; /* when sonded read something last */
} now;

static int64_t clock_now(void) {
    return handler_clock_ns(CLOCK_MONOTONIC);
}

static void send_state(bool running, int os_error) {
    link_out *out = link_message();
    sonde_guest_v1_CpuState *state = &out->message.cpu_state;
    out->which_message = sonde_guest_v1_FromGuest_cpu_state_tag;
    state->sequence = now.sequence;
    state->running = running;
    state->period_ns = now.period_ns;
    state->threads = threads_count();
    state->os_error = os_error;
    append_text(state->clock, sizeof state->clock, running ? clock_name(now.plan.clock) : "");
    append_text(state->note, sizeof state->note, now.plan.note);
    if (now.plan.clock == SAMPLE_CLOCK_PERF)
        threads_note(state->note, sizeof state->note, SAMPLE_CLOCK_TIMER,
                     " threads by timer (RLIMIT_NOFILE)");
    threads_note(state->note, sizeof state->note, SAMPLE_CLOCK_NONE, " threads without a clock");
    link_send(-1);
}

void capture_suspend(void) {
    int64_t used_ns = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    now.own_start_ns -= used_ns; /* the next thread's clock begins at 0 */
    now.own_running_ns -= used_ns;
}

static void send_account(void) {
    struct handler_cost handlers = sampled_threads_handler_cost();
    uint64_t handler_ns = handler_cost_ns(&now.handlers_before, &handlers);
    if (handler_state.rings.header) {
        atomic_store(&handler_state.rings.header->handler_ns, handler_ns);
        atomic_store(&handler_state.rings.header->handler_count, handlers.count);
    }
    link_out *out = link_message();
    sonde_guest_v1_CpuAccount *account = &out->message.cpu_account;
    out->which_message = sonde_guest_v1_FromGuest_cpu_account_tag;
    account->process_cpu_ns =
        (uint64_t)(handler_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - now.process_start_ns);
    int64_t own_ns = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    account->guest_cpu_ns = handler_ns + (uint64_t)(own_ns - now.own_start_ns);
    account->control_cpu_ns = (uint64_t)(own_ns - now.own_running_ns);
    account->threads = threads_count();
    now.account_ns = maps_watch_next(clock_now() + ACCOUNT_NS / 2);
    link_send(-1);
}

static void add_mapping(sonde_guest_v1_Mapping *mapping, const struct maps_module *module) {
    mapping->start = module->start;
    mapping->end = module->end;
    mapping->offset = module->offset;
    mapping->device_major = module->device_major;
    mapping->device_minor = module->device_minor;
    mapping->inode = module->inode;
    memcpy(mapping->path, module->path, sizeof mapping->path);
}

static bool send_maps(void) {
    for (uint32_t at = 0; at == 0 || at < now.maps.module_count;) {
        link_out *out = link_message();
        sonde_guest_v1_Maps *maps = &out->message.maps;
        out->which_message = sonde_guest_v1_FromGuest_maps_tag;
        maps->generation = now.generation;
        for (; at < now.maps.module_count && maps->mappings_count < PARTS; at++)
            add_mapping(&maps->mappings[maps->mappings_count++], &now.maps.modules[at]);
        maps->last = at >= now.maps.module_count;
        if (!link_send(-1))
            return false;
        if (maps->last)
            break;
    }
    return true;
}

/* The stack areas are read by handlers: the old ones may be written again only when none is
 * inside. */
static bool is_quiet(void) {
    return handler_is_quiescent(sampled_threads_limit()) && alloc_backtrace_is_quiescent();
}

static bool wait_quiet(int tries) {
    for (; tries > 0; tries--) {
        if (is_quiet())
            return true;
        struct timespec moment = {0, 1000000};
        nanosleep(&moment, NULL);
    }
    return false;
}

/* Reads the maps; a changed set becomes a new generation, is published and sent. */
/* False when they are not to be had. */
static bool refresh_maps(bool force) {
    int64_t begin = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    atomic_store(&guest.reread_maps, false);
    maps_watch_before(&now.watch);
    if (!wait_quiet(10) || maps_init(&now.next_maps) != 0 || maps_read(&now.next_maps) != 0)
        return false;
    now.maps_cost_ns = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
    bool changed = force || !maps_same_modules(&now.maps, &now.next_maps);
    struct maps swap = now.maps;
    now.maps = now.next_maps;
    now.next_maps = swap;
    atomic_store(&handler_state.areas, now.maps.areas);
    if (!changed)
        return true;
    module_map_collect(is_quiet());
    if (module_map_set_modules(&now.maps, ++now.generation) == 0 && module_map_publish() == 0)
        send_maps();
    return true;
}

static struct maps_reasons reasons(void) {
    return (struct maps_reasons){.missed = atomic_load(&handler_state.missed) != 0,
                                 .closed = atomic_load(&guest.reread_maps),
                                 .running = now.stage == RUNNING};
}

static void plan_maps(void) {
    maps_watch_begin(&now.watch, clock_now(), now.maps_cost_ns, reasons());
    atomic_store(&handler_state.missed, 0);
    atomic_store(&handler_state.wants_miss, 1);
}

static enum sample_clock clock_of(sonde_guest_v1_ClockChoice choice) {
    switch (choice) {
    case sonde_guest_v1_ClockChoice_CLOCK_PERF:
        return SAMPLE_CLOCK_PERF;
    case sonde_guest_v1_ClockChoice_CLOCK_TIMER:
        return SAMPLE_CLOCK_TIMER;
    case sonde_guest_v1_ClockChoice_CLOCK_ITIMER:
        return SAMPLE_CLOCK_PROCESS;
    default:
        return SAMPLE_CLOCK_NONE;
    }
}

static void refuse(int os_error) {
    now.stage = IDLE;
    atomic_store(&guest.state, GUEST_IDLE);
    now.plan.os_error = os_error;
    send_state(false, os_error);
}

/* A faster capture than the rings were made for gets new ones; sonded reads what the old ones hold
 * when it hears of them. */
static uint64_t fastest_ns(void) {
    bool is_wall = now.wall_period_ns && now.wall_period_ns < now.period_ns;
    return is_wall ? now.wall_period_ns : now.period_ns;
}

static bool rings_too_small(void) {
    uint32_t count;
    uint64_t bytes = rings_plan(fastest_ns(), limits_cpus(), &count);
    return handler_state.rings.count * handler_state.rings.bytes < count * bytes;
}

/* Rings and memory for the maps. */
static int prepare_parts(void) {
    int error = sampled_threads_open();
    bool useless = handler_state.rings.header && (rings_fd() < 0 || rings_too_small());
    if (useless && wait_quiet(10))
        rings_destroy();
    bool fresh = !handler_state.rings.header;
    if (!error && fresh)
        error = rings_create(fastest_ns(), limits_cpus());
    if (!error)
        error = maps_init(&now.maps);
    if (error || !fresh)
        return error;
    link_out *out = link_message();
    out->which_message = sonde_guest_v1_FromGuest_rings_tag;
    out->message.rings.ring_count = handler_state.rings.count;
    out->message.rings.ring_bytes = handler_state.rings.bytes;
    return link_send(rings_fd()) ? 0 : EPIPE;
}

static void prepare(void) {
    now.plan = (struct clock_plan){.clock = SAMPLE_CLOCK_NONE};
    now.own_start_ns = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    int error = prepare_parts();
    if (!error && !refresh_maps(true) && now.maps.module_count == 0) {
        append_text(now.plan.note, sizeof now.plan.note, "it sees no /proc in its chroot");
        error = ENOENT;
    }
    if (error) {
        refuse(error);
        return;
    }
    now.stage = PREPARING;
    atomic_store(&guest.state, GUEST_PREPARING);
    now.deadline_ns = clock_now() + TABLES_NS;
    if (now.maps.main_stack.high)
        handler_state.main_stack.high = now.maps.main_stack.high;
}

/* Chooses a clock that can be armed and whose signal is ours. */
static int ready_clock(enum sample_clock wanted) {
    clock_choose(wanted, install_timer_signal(), &now.plan);
    int error = now.plan.clock == SAMPLE_CLOCK_NONE ? now.plan.os_error : 0;
    if (!error && now.plan.clock == SAMPLE_CLOCK_PERF)
        error = install_handler(CHAIN_TRAP);
    if (!error && handler_state.timer_signal && now.plan.clock != SAMPLE_CLOCK_PROCESS)
        error = install_handler(CHAIN_TIMER); /* for threads that get no descriptor, too */
    if (!error && now.plan.clock == SAMPLE_CLOCK_PROCESS)
        error = install_handler(CHAIN_PROF);
    return error;
}

/* Blocked threads are looked at from now on, or no more; what is known of them is in the rings. */
static void adjust_blocked(void) {
    blocked_flush();
    if (!now.wall_period_ns) {
        blocked_close();
        return;
    }
    int error = blocked_open(now.wall_period_ns);
    if (!error || strstr(now.plan.note, "blocked threads"))
        return;
    append_text(now.plan.note, sizeof now.plan.note, *now.plan.note ? "; " : "");
    append_text(now.plan.note, sizeof now.plan.note, "stacks of blocked threads: ");
    append_errno(now.plan.note, sizeof now.plan.note, error);
}

static void start_clocks(void) {
    int error = ready_clock(now.wanted);
    if (error) {
        refuse(error);
        return;
    }
    now.handlers_before = sampled_threads_handler_cost();
    now.process_start_ns = handler_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    threads_open(&now.plan, now.period_ns);
    if (now.plan.clock == SAMPLE_CLOCK_PROCESS)
        clock_process(now.period_ns);
    adjust_blocked();
    now.stage = RUNNING;
    atomic_store(&guest.state, GUEST_RUNNING);
    now.look_ns = clock_now() + LOOK_NS / 5; /* threads that slipped through the first scan */
    now.account_ns = maps_watch_next(clock_now() + ACCOUNT_NS / 2);
    now.read_ns = clock_now();
    plan_maps();
    send_state(true, 0);
    now.own_running_ns = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void stop_clocks(void) {
    blocked_close();
    if (now.plan.clock == SAMPLE_CLOCK_PROCESS)
        clock_process(0);
    threads_close();
    wait_quiet(1000);
    atomic_store(&handler_state.wants_miss, atomic_load(&guest.keeps_maps));
}

static void stop(void) {
    stop_clocks();
    send_account();
    now.stage = DRAINING;
    atomic_store(&guest.state, GUEST_IDLE);
    now.deadline_ns = clock_now() + DRAIN_NS;
    send_state(false, 0);
}

static void change_rate(void) {
    threads_change(now.period_ns);
    if (now.plan.clock == SAMPLE_CLOCK_PROCESS)
        clock_process(now.period_ns);
    send_state(true, 0);
}

void capture_on_config(const sonde_guest_v1_CpuConfig *config) {
    uint64_t period = config->period_ns, before = now.period_ns;
    now.sequence = config->sequence;
    if (period && period < LEAST_PERIOD)
        period = LEAST_PERIOD;
    now.period_ns = period < MOST_PERIOD ? period : MOST_PERIOD;
    now.wall_period_ns =
        config->wall_period_ns < MOST_PERIOD ? config->wall_period_ns : MOST_PERIOD;
    if (now.stage == RUNNING && period)
        adjust_blocked();
    now.wanted = clock_of(config->clock);
    uint32_t depth = config->max_depth;
    atomic_store(&handler_state.max_depth,
                 depth >= 2 && depth < RING_MAX_DEPTH ? depth : RING_MAX_DEPTH);
    if (period && (now.stage == IDLE || now.stage == DRAINING))
        prepare();
    else if (period && now.stage == RUNNING && now.period_ns != before)
        change_rate();
    else if (now.stage == RUNNING && !period)
        stop();
    else if (now.stage == RUNNING)
        send_state(true, 0);
    else if (!period) {
        now.stage = now.stage == PREPARING ? IDLE : now.stage;
        atomic_store(&guest.state, GUEST_IDLE);
        send_state(false, 0);
    }
}

void capture_on_table(const sonde_guest_v1_Table *table, int fd) {
    if (module_map_add_table(table->generation, table->start, table->bias, table->bytes, fd) != 0)
        return; /* the module goes without a table: cut stacks are counted */
}

void capture_on_tables_done(const sonde_guest_v1_TablesDone *done) {
    bool wanted = now.stage == PREPARING || now.stage == RUNNING || atomic_load(&guest.keeps_maps);
    if (done->generation != now.generation || !wanted)
        return;
    module_map_collect(is_quiet());
    module_map_publish();
    if (now.stage == PREPARING)
        start_clocks();
}

/* Somebody went around our sigaction: perf's signals would meet their handler. */
static void check_handlers(void) {
    if (now.plan.clock != SAMPLE_CLOCK_PERF || install_holds(CHAIN_TRAP))
        return;
    int error = ready_clock(SAMPLE_CLOCK_TIMER);
    append_text(now.plan.note, sizeof now.plan.note, "; SIGTRAP was taken by the program");
    if (error) {
        stop_clocks();
        refuse(error);
        return;
    }
    threads_replan(&now.plan);
    send_state(true, 0);
}

/* A sonded that reads nothing while records pile up is stuck: hang up rather than tick for
 * nobody. */
static void check_reader(void) {
    uint64_t read = rings_read_bytes();
    if (read != now.read_bytes || rings_written_bytes() == read)
        now.read_ns = clock_now();
    now.read_bytes = read;
    if (clock_now() - now.read_ns > STUCK_NS)
        link_close();
}

static void look(void) {
    threads_look();
    check_handlers();
    check_reader();
    module_map_collect(is_quiet());
    now.look_ns = maps_watch_next(clock_now());
}

static void maps_tick(int64_t time) {
    if (!maps_watch_wants(&now.watch, time, reasons()))
        return;
    refresh_maps(false);
    plan_maps();
}

bool capture_has_maps(void) {
    return atomic_load(&handler_state.map) &&
           (now.stage == RUNNING || atomic_load(&guest.keeps_maps));
}

void capture_keep_maps(bool wanted) {
    bool reads_itself = now.stage == PREPARING || now.stage == RUNNING;
    if (atomic_exchange(&guest.keeps_maps, wanted) || !wanted || reads_itself)
        return;
    if (maps_init(&now.maps) != 0)
        return;
    refresh_maps(true);
    plan_maps();
}

static void run_tick(int64_t time) {
    maps_tick(time);
    if (now.stage == RUNNING && time >= now.look_ns)
        look();
    if (now.stage == RUNNING && time >= now.account_ns)
        send_account();
    if (now.stage == RUNNING && time >= blocked_due_ns())
        blocked_round();
}

/* After the capture: rings, caches and maps cost nothing again. */
static void rest(void) {
    if (rings_fd() >= 0 && rings_drained())
        rings_punch();
    if (handler_is_quiescent(sampled_threads_limit()))
        sampled_threads_trim();
    now.stage = IDLE;
}

static int until(int64_t time) {
    int64_t left = (time - clock_now()) / MS + 1;
    return left < 0 ? 0 : (int)left;
}

static int64_t next_due(void) {
    int64_t next = maps_watch_due(&now.watch, reasons());
    next = now.look_ns < next ? now.look_ns : next;
    next = blocked_due_ns() < next ? blocked_due_ns() : next;
    return now.account_ns < next ? now.account_ns : next;
}

int capture_tick(void) {
    int64_t time = clock_now();
    if (now.stage == PREPARING && time >= now.deadline_ns)
        start_clocks();
    if (now.stage == RUNNING)
        run_tick(time);
    if (now.stage == DRAINING && (time >= now.deadline_ns || rings_drained()))
        rest();
    bool keeps = atomic_load(&guest.keeps_maps);
    if (keeps && (now.stage == IDLE || now.stage == DRAINING))
        maps_tick(time);
    switch (now.stage) {
    case PREPARING:
        return until(now.deadline_ns);
    case RUNNING:
        return until(next_due());
    case DRAINING:
        return 100;
    default:
        return keeps ? until(maps_watch_due(&now.watch, reasons())) : -1;
    }
}

/* The map goes out of sight first: an allocation may walk by it at any moment. */
void capture_abandon(void) {
    atomic_store(&guest.keeps_maps, false);
    if (now.stage == RUNNING)
        stop_clocks();
    now.stage = IDLE;
    atomic_store(&handler_state.map, NULL);
    if (!wait_quiet(1000))
        return; /* a thread is stopped inside a handler: its memory stays */
    module_map_clear();
    rings_destroy();
    sampled_threads_trim();
    now.maps.module_count = 0;
}

void capture_after_fork(void) {
    now.stage = IDLE;
    now.maps.module_count = 0;
    rings_after_fork();
    module_map_after_fork();
}
