/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/capture_state.h"

#include "service/guest/guest.h"
#include "service/guest/link.h"
#include "service/guest/maps/map_updates.h"
#include "service/guest/maps/maps_watch.h"
#include "service/guest/maps/module_map.h"
#include "service/guest/process/address_space.h"
#include "service/guest/process/append.h"
#include "service/guest/process/limits.h"
#include "service/guest/process/procfs.h"
#include "service/guest/quiescence.h"
#include "service/guest/sampling/blocked_threads.h"
#include "service/guest/sampling/capture_notes.h"
#include "service/guest/sampling/clock.h"
#include "service/guest/sampling/install.h"
#include "service/guest/sampling/rings.h"
#include "service/guest/sampling/sampled_threads.h"
#include "service/guest/sampling/thread_scan.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define MS            1000000ll
#define CHECK_NS      (500 * MS) /* between two looks at threads, handlers and the reader */
#define ACCOUNT_NS    (1000 * MS)
#define SETTING_NS    (2000 * MS) /* between two looks at kernel.perf_event_paranoid */
#define TABLES_NS     (3000 * MS)
#define DRAIN_NS      (10000 * MS) /* then the rings keep what sonded has not read */
#define STUCK_NS      (10000 * MS)
#define QUIESCENCE_MS 1000
#define FIRST_BYTES   (26ull << 20) /* tables of threads and mappings, which are reserved once */
#define MIN_PERIOD    (50 * 1000ull)
#define MAX_PERIOD    (10ull * 1000 * 1000 * 1000)

enum stage { IDLE, PREPARING, RUNNING, DRAINING };

static struct {
    enum stage stage;
    uint32_t sequence;
    uint64_t period_ns, wall_period_ns; /* wall_period_ns 0 = blocked threads are not looked at */
    enum sample_clock wanted;
    struct clock_plan plan;
    bool is_traced;      /* no clock runs, whatever the plan says */
    int64_t deadline_ns; /* for tables, or for draining */
    int64_t check_ns, account_ns, setting_ns;
    int paranoid; /* limits_perf_paranoid when the clock was chosen */
    int64_t process_start_ns;
    int64_t own_start_ns;   /* the control thread's CPU clock before the preparations */
    int64_t own_running_ns; /* and after them */
    struct handler_cost handlers_before;
    uint32_t tables_lost, tables_reported; /* unwind tables that could not be loaded */
    int tables_error;                      /* the last reason, an errno */
    uint32_t held_reported;                /* threads_held in the last message */
    uint64_t read_bytes;
    int64_t read_ns; /* when sonded last read something */
} capture;

static int64_t clock_now(void) {
    return handler_clock_ns(CLOCK_MONOTONIC);
}

static void note_lost_tables(char *note, size_t size) {
    if (capture.tables_lost == 0)
        return;
    append_text(note, size, *note ? "; " : "");
    append_number(note, size, capture.tables_lost);
    append_text(note, size, " unwind tables could not be loaded, so callers are missing: ");
    append_errno(note, size, capture.tables_error);
}

static void send_state(bool running, int os_error) {
    link_out *out = link_message();
    sonde_guest_v1_CpuState *state = &out->message.cpu_state;
    out->which_message = sonde_guest_v1_FromGuest_cpu_state_tag;
    state->sequence = capture.sequence;
    state->running = running;
    state->period_ns = capture.period_ns;
    state->threads = threads_count();
    state->os_error = os_error;
    append_text(state->clock, sizeof state->clock, running ? clock_name(capture.plan.clock) : "");
    append_text(state->note, sizeof state->note, capture.plan.note);
    capture_notes_put(state->note, sizeof state->note);
    note_lost_tables(state->note, sizeof state->note);
    threads_note(state->note, sizeof state->note);
    capture.held_reported = threads_held();
    link_send(-1);
}

void capture_suspend(void) {
    int64_t used_ns = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    capture.own_start_ns -= used_ns; /* the next thread's clock starts at 0 */
    capture.own_running_ns -= used_ns;
}

static void send_account(void) {
    struct handler_cost handlers = sampled_threads_handler_cost();
    uint64_t handler_ns = handler_cost_ns(&capture.handlers_before, &handlers);
    if (handler_state.rings.header) {
        atomic_store(&handler_state.rings.header->handler_ns, handler_ns);
        atomic_store(&handler_state.rings.header->handler_count, handlers.runs);
    }
    link_out *out = link_message();
    sonde_guest_v1_CpuAccount *account = &out->message.cpu_account;
    out->which_message = sonde_guest_v1_FromGuest_cpu_account_tag;
    account->process_cpu_ns =
        (uint64_t)(handler_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - capture.process_start_ns);
    int64_t own_ns = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    account->guest_cpu_ns = handler_ns + (uint64_t)(own_ns - capture.own_start_ns);
    account->control_cpu_ns = (uint64_t)(own_ns - capture.own_running_ns);
    account->threads = threads_count();
    capture.account_ns = maps_watch_next(clock_now() + ACCOUNT_NS / 2);
    link_send(-1);
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
    if (os_error == ENOMEM)
        (void)address_space_reason(capture.plan.note, sizeof capture.plan.note);
    capture.stage = IDLE;
    atomic_store(&guest.state, GUEST_IDLE);
    capture.plan.os_error = os_error;
    send_state(false, os_error);
}

static uint64_t fastest_ns(void) {
    bool is_wall = capture.wall_period_ns && capture.wall_period_ns < capture.period_ns;
    return is_wall ? capture.wall_period_ns : capture.period_ns;
}

/* If a capture needs a higher rate than the rings were sized for, new rings are allocated. sonded
 * reads what is left in the old ones when it receives the new ones. */
static bool are_rings_too_small(void) {
    return !rings_suffice(fastest_ns(), limits_cpus());
}

static bool send_rings(void) {
    link_out *out = link_message();
    out->which_message = sonde_guest_v1_FromGuest_rings_tag;
    out->message.rings.ring_count = handler_state.rings.count;
    out->message.rings.ring_bytes = handler_state.rings.bytes;
    return link_send(rings_fd());
}

/* Allocates what a capture needs and sends new rings. */
static int prepare_memory(void) {
    bool is_first = !handler_state.threads;
    if (is_first && !address_space_allows(ADDRESS_SPACE_PRIVATE, FIRST_BYTES))
        return ENOMEM;
    int error = sampled_threads_open();
    bool is_unusable = handler_state.rings.header && (rings_fd() < 0 || are_rings_too_small());
    if (is_unusable && quiescence_wait(10))
        rings_destroy();
    bool is_new = !handler_state.rings.header;
    if (!error && is_new)
        error = rings_create(fastest_ns(), limits_cpus());
    if (!error)
        error = map_updates_open();
    if (error || !is_new)
        return error;
    return send_rings() ? 0 : EPIPE;
}

static void prepare(void) {
    capture.tables_lost = capture.tables_reported = 0;
    capture.plan = (struct clock_plan){.clock = SAMPLE_CLOCK_NONE};
    capture_notes_clear();
    capture.own_start_ns = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    int error = prepare_memory();
    if (!error && !map_updates_read(true) && !atomic_load(&handler_state.map)) {
        append_text(capture.plan.note, sizeof capture.plan.note, "no /proc in its chroot");
        error = ENOENT;
    }
    if (error) {
        refuse(error);
        return;
    }
    capture.stage = PREPARING;
    atomic_store(&guest.state, GUEST_PREPARING);
    capture.deadline_ns = clock_now() + TABLES_NS;
    if (map_updates_maps()->main_stack.high)
        handler_state.main_stack.high = map_updates_maps()->main_stack.high;
}

/* Chooses a clock that can be armed, and installs its handler. 0 or an errno. */
static int choose_clock(enum sample_clock wanted) {
    capture.paranoid = limits_perf_paranoid();
    capture.setting_ns = clock_now() + SETTING_NS;
    clock_choose(wanted, install_timer_signal(), &capture.plan);
    int error = capture.plan.clock == SAMPLE_CLOCK_NONE ? capture.plan.os_error : 0;
    if (!error && capture.plan.clock == SAMPLE_CLOCK_PERF)
        error = install_handler(CHAIN_TRAP);
    if (!error && handler_state.timer_signal && capture.plan.clock != SAMPLE_CLOCK_PROCESS)
        error = install_handler(CHAIN_TIMER); /* threads without a descriptor use it, too */
    if (!error && capture.plan.clock == SAMPLE_CLOCK_PROCESS)
        error = install_handler(CHAIN_PROF);
    return error;
}

/* Starts, changes or ends the observation of blocked threads, after recording what is known of
 * them. */
static void adjust_blocked(void) {
    blocked_flush();
    if (!capture.wall_period_ns) {
        blocked_close();
        return;
    }
    char note[128] = "stacks of blocked threads: ";
    int error = blocked_open(capture.wall_period_ns);
    if (!error)
        return;
    if (error != ENOMEM || !address_space_reason(note, sizeof note))
        append_errno(note, sizeof note, error);
    capture_notes_add(note);
}

static const struct clock_plan *plan_in_effect(void) {
    static const struct clock_plan none = {.clock = SAMPLE_CLOCK_NONE, .no_perf_fallback = true};
    return capture.is_traced ? &none : &capture.plan;
}

/* A debugger stops the program at each signal that it does not expect, so its user could not
 * continue the program. gdb expects SIGPROF. Returns whether that has changed. */
static bool look_for_tracer(void) {
    bool was_traced = capture.is_traced;
    capture.is_traced = capture.plan.clock != SAMPLE_CLOCK_PROCESS && procfs_is_traced();
    if (capture.is_traced)
        capture_notes_add("a debugger was attached; meanwhile there are no samples");
    return capture.is_traced != was_traced;
}

static void start_clocks(void) {
    int error = choose_clock(capture.wanted);
    if (error) {
        refuse(error);
        return;
    }
    (void)look_for_tracer();
    capture.handlers_before = sampled_threads_handler_cost();
    capture.process_start_ns = handler_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    threads_open(plan_in_effect(), capture.period_ns);
    if (capture.plan.clock == SAMPLE_CLOCK_PROCESS)
        clock_process(capture.period_ns);
    adjust_blocked();
    capture.stage = RUNNING;
    atomic_store(&guest.state, GUEST_RUNNING);
    capture.check_ns = clock_now() + CHECK_NS / 5; /* soon: the first scan may miss new threads */
    capture.account_ns = maps_watch_next(clock_now() + ACCOUNT_NS / 2);
    capture.read_ns = clock_now();
    map_updates_plan(true);
    send_state(true, 0);
    capture.own_running_ns = handler_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static void stop_clocks(void) {
    blocked_close();
    if (capture.plan.clock == SAMPLE_CLOCK_PROCESS)
        clock_process(0);
    threads_close();
    quiescence_wait(QUIESCENCE_MS);
    atomic_store(&handler_state.wants_miss, atomic_load(&guest.keeps_maps));
}

static void stop(void) {
    stop_clocks();
    send_account();
    capture.stage = DRAINING;
    atomic_store(&guest.state, GUEST_IDLE);
    capture.deadline_ns = clock_now() + DRAIN_NS;
    send_state(false, 0);
}

static void change_rate(void) {
    threads_change(capture.period_ns);
    if (capture.plan.clock == SAMPLE_CLOCK_PROCESS)
        clock_process(capture.period_ns);
    send_state(true, 0);
}

void capture_on_config(const sonde_guest_v1_CpuConfig *config) {
    uint64_t period = config->period_ns, before = capture.period_ns;
    capture.sequence = config->sequence;
    if (period && period < MIN_PERIOD)
        period = MIN_PERIOD;
    capture.period_ns = period < MAX_PERIOD ? period : MAX_PERIOD;
    capture.wall_period_ns =
        config->wall_period_ns < MAX_PERIOD ? config->wall_period_ns : MAX_PERIOD;
    if (capture.stage == RUNNING && period)
        adjust_blocked();
    capture.wanted = clock_of(config->clock);
    threads_count_past(config->counts_past);
    uint32_t depth = config->max_depth;
    atomic_store(&handler_state.max_depth,
                 depth >= 2 && depth < RING_MAX_DEPTH ? depth : RING_MAX_DEPTH);
    if (period && (capture.stage == IDLE || capture.stage == DRAINING))
        prepare();
    else if (period && capture.stage == RUNNING && capture.period_ns != before)
        change_rate();
    else if (capture.stage == RUNNING && !period)
        stop();
    else if (capture.stage == RUNNING)
        send_state(true, 0);
    else if (!period) {
        capture.stage = capture.stage == PREPARING ? IDLE : capture.stage;
        atomic_store(&guest.state, GUEST_IDLE);
        send_state(false, 0);
    }
}

/* A table of an older map (ESTALE, ENOENT) is not needed any more. Without any other one, stacks
 * that end in its module lack their callers. */
void capture_on_table(const sonde_guest_v1_Table *table, int fd) {
    int error =
        module_map_add_table(table->generation, table->start, table->bias, table->bytes, fd);
    if (error && error != ESTALE && error != ENOENT) {
        capture.tables_lost++;
        capture.tables_error = error;
    }
}

void capture_on_tables_done(const sonde_guest_v1_TablesDone *done) {
    bool wanted =
        capture.stage == PREPARING || capture.stage == RUNNING || atomic_load(&guest.keeps_maps);
    if (!map_updates_is_current(done->generation) || !wanted)
        return;
    map_updates_publish();
    if (capture.stage == PREPARING)
        start_clocks();
    else if (capture.stage == RUNNING && capture.tables_lost > capture.tables_reported)
        send_state(true, 0);
    capture.tables_reported = capture.tables_lost;
}

static void check_tracer(void) {
    if (look_for_tracer()) {
        threads_replan(plan_in_effect());
        send_state(true, 0);
    }
}

/* The program has installed a SIGTRAP handler without libc's sigaction. It would receive our ticks,
 * so the capture continues with timers. */
static void check_handlers(void) {
    if (capture.plan.clock != SAMPLE_CLOCK_PERF || install_holds(CHAIN_TRAP))
        return;
    int error = choose_clock(SAMPLE_CLOCK_TIMER);
    capture_notes_add("SIGTRAP was taken by the program");
    if (error) {
        stop_clocks();
        refuse(error);
        return;
    }
    threads_replan(plan_in_effect());
    send_state(true, 0);
}

/* Perf may be allowed or refused from now on. Clocks that run already go on; threads with timers
 * get a clock of perf if they may have one, and new threads get what is allowed. */
static void check_setting(void) {
    if (capture.wanted != SAMPLE_CLOCK_NONE || clock_now() < capture.setting_ns)
        return;
    capture.setting_ns = clock_now() + SETTING_NS;
    bool was_perf = capture.plan.clock == SAMPLE_CLOCK_PERF;
    if (limits_perf_paranoid() == capture.paranoid || choose_clock(SAMPLE_CLOCK_NONE) != 0)
        return;
    capture_notes_add("kernel.perf_event_paranoid was changed during the capture");
    if (was_perf && capture.plan.clock != SAMPLE_CLOCK_PERF)
        threads_plan_new(plan_in_effect());
    else
        threads_replan(plan_in_effect());
    send_state(true, 0);
}

/* Hangs up when sonded has not read anything for STUCK_NS although there are records. */
static void check_reader(void) {
    uint64_t read = rings_read_bytes();
    if (read != capture.read_bytes || rings_written_bytes() == read)
        capture.read_ns = clock_now();
    capture.read_bytes = read;
    if (clock_now() - capture.read_ns > STUCK_NS)
        link_close();
}

static void check(void) {
    check_tracer();
    threads_look();
    check_handlers();
    check_setting();
    check_reader();
    if (threads_held() != capture.held_reported)
        send_state(true, 0);
    module_map_collect(quiescence_reached());
    capture.check_ns = maps_watch_next(clock_now());
}

bool capture_has_maps(void) {
    return atomic_load(&handler_state.map) &&
           (capture.stage == RUNNING || atomic_load(&guest.keeps_maps));
}

void capture_keep_maps(bool wanted) {
    bool is_kept_anyway = capture.stage == PREPARING || capture.stage == RUNNING;
    if (atomic_exchange(&guest.keeps_maps, wanted) || !wanted || is_kept_anyway)
        return;
    if (map_updates_open() != 0)
        return;
    map_updates_read(true);
    map_updates_plan(false);
}

static void run_tick(int64_t time) {
    map_updates_tick(time, true);
    if (capture.stage == RUNNING && time >= capture.check_ns)
        check();
    if (capture.stage == RUNNING && time >= capture.account_ns)
        send_account();
    if (capture.stage == RUNNING && time >= blocked_due_ns())
        blocked_round();
}

/* Frees what only a capture needs. */
static void end_draining(void) {
    if (rings_fd() >= 0 && rings_drained())
        rings_punch();
    if (handler_is_quiescent(sampled_threads_limit()))
        sampled_threads_trim();
    capture.stage = IDLE;
}

static int until(int64_t time) {
    int64_t left = (time - clock_now()) / MS + 1;
    return left < 0 ? 0 : (int)left;
}

static int64_t next_due(void) {
    int64_t next = map_updates_due(true);
    next = capture.check_ns < next ? capture.check_ns : next;
    next = blocked_due_ns() < next ? blocked_due_ns() : next;
    return capture.account_ns < next ? capture.account_ns : next;
}

int capture_tick(void) {
    int64_t time = clock_now();
    if (capture.stage == PREPARING && time >= capture.deadline_ns)
        start_clocks();
    if (capture.stage == RUNNING)
        run_tick(time);
    if (capture.stage == DRAINING && (time >= capture.deadline_ns || rings_drained()))
        end_draining();
    bool keeps = atomic_load(&guest.keeps_maps);
    if (keeps && (capture.stage == IDLE || capture.stage == DRAINING))
        map_updates_tick(time, false);
    switch (capture.stage) {
    case PREPARING:
        return until(capture.deadline_ns);
    case RUNNING:
        return until(next_due());
    case DRAINING:
        return 100;
    default:
        return keeps ? until(map_updates_due(false)) : -1;
    }
}

/* Unpublishes the map first, since an allocation may walk with it at any moment. */
void capture_abandon(void) {
    atomic_store(&guest.keeps_maps, false);
    if (capture.stage == RUNNING)
        stop_clocks();
    capture.stage = IDLE;
    atomic_store(&handler_state.map, NULL);
    if (!quiescence_wait(QUIESCENCE_MS))
        return; /* a thread is stopped inside a handler, which may use the memory */
    module_map_clear();
    rings_destroy();
    sampled_threads_trim();
    map_updates_forget();
}

void capture_after_fork(void) {
    capture.stage = IDLE;
    map_updates_forget();
    rings_after_fork();
    module_map_after_fork();
}
