/* SPDX-License-Identifier: Apache-2.0
 *
 * The tick stream that all captures of a target share: as fast as the fastest capture wants, and
 * running while there is one. The target's source is asked for periods, and answers when its clocks
 * run: a guest is sent CpuConfig and answers with CpuState. After a stop, the answer is awaited for
 * a moment, so that the last records count. Captures that arrive meanwhile wait for the next
 * start. */
#include "service/engine/capture/clock.h"
#include "service/engine/capture/budget.h"
#include "service/engine/capture/samples.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NO_TICK_NS 10000000000ull /* the longest period of a source; no capture counts CPU time */

static void send_config(struct target *target, uint64_t period_ns, uint64_t wall_period_ns) {
    uint64_t now_ns = now_monotonic_ns();
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next)
        cpu_capture_note_rate(capture, now_ns);
    target->sequence++;
    target->period_ns = period_ns;
    target->wall_period_ns = wall_period_ns;
    target->source->set_periods(target, period_ns, wall_period_ns);
}

static uint64_t shorter(uint64_t a, uint64_t b) {
    return a == 0 || (b != 0 && b < a) ? b : a;
}

static uint64_t longer(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* The periods that satisfy all captures; 0 = not needed. */
struct wanted {
    uint64_t period_ns, wall_period_ns;
    bool locks;
};

static struct wanted wanted_periods(const struct target *target) {
    struct wanted wanted = {0};
    for (const struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (capture->state != CAPTURE_WAITING && capture->state != CAPTURE_RUNNING)
            continue;
        const struct budget_limit *limit = &target->budget.limits[capture->spec.is_recording];
        bool ticks = capture->spec.event != SONDE_OFF_CPU;
        uint64_t period_ns = ticks ? capture->period_ns : NO_TICK_NS;
        wanted.period_ns = shorter(wanted.period_ns, longer(period_ns, limit->min_period_ns));
        wanted.locks |= capture->spec.has_locks;
        if (capture->spec.event == SONDE_WALL || capture->spec.event == SONDE_OFF_CPU)
            wanted.wall_period_ns = shorter(wanted.wall_period_ns,
                                            longer(capture->period_ns, limit->min_wall_period_ns));
    }
    return wanted;
}

/* At low rates the rings, which hold more than a second of ticks, need to be drained less often;
 * but not if the last drain has shown that many threads are writing. */
static uint64_t drain_pause(const struct target *target) {
    if (target->source->is_busy(target))
        return ENGINE_DRAIN_NS;
    uint64_t pause_ns = ENGINE_DRAIN_TICKS * shorter(target->period_ns, target->wall_period_ns);
    if (pause_ns > ENGINE_DRAIN_SLOW_NS)
        return ENGINE_DRAIN_SLOW_NS;
    return longer(pause_ns, ENGINE_DRAIN_NS);
}

bool clock_is_for_recordings(const struct target *target) {
    for (const struct cpu_capture *capture = target->captures; capture; capture = capture->next)
        if (!capture->spec.is_recording)
            return false;
    return true;
}

static void begin_waiting(struct target *target, bool are_older_theirs) {
    uint64_t now_ns = now_monotonic_ns();
    if (!are_older_theirs)
        target->source->drain_all(target, now_ns);
    target_read_cpu(target);
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (capture->state == CAPTURE_WAITING)
            cpu_capture_begin(capture, now_ns);
    }
}

static void start(struct target *target, const struct wanted *wanted) {
    send_config(target, wanted->period_ns, wanted->wall_period_ns);
    target->clock = CLOCK_STARTING;
    target->start_sequence = target->sequence;
    target->clock_deadline_ns = now_monotonic_ns() + target->engine->start_ns;
}

static void stop(struct target *target) {
    send_config(target, 0, 0);
    target->clock = CLOCK_STOPPING;
    target->clock_deadline_ns = now_monotonic_ns() + target->source->last_wait_ns;
}

void clock_request_flush(struct target *target) {
    send_config(target, target->period_ns, target->wall_period_ns);
}

void clock_adjust(struct target *target) {
    budget_adjust(target);
    struct wanted wanted = wanted_periods(target);
    bool is_other = wanted.period_ns != target->period_ns ||
                    wanted.wall_period_ns != target->wall_period_ns ||
                    wanted.locks != target->wants_locks;
    target->wants_locks = wanted.locks;
    target_wake_now(target);
    switch (target->clock) {
    case CLOCK_IDLE:
        if (wanted.period_ns != 0 && target->is_attached)
            start(target, &wanted);
        return;
    case CLOCK_STARTING:
    case CLOCK_RUNNING:
        if (wanted.period_ns == 0)
            stop(target);
        else if (is_other)
            send_config(target, wanted.period_ns, wanted.wall_period_ns);
        if (target->clock == CLOCK_RUNNING)
            begin_waiting(target, false);
        return;
    case CLOCK_STOPPING:
        return;
    }
}

void clock_stopped(struct target *target) {
    target->clock = CLOCK_STOPPING; /* a capture that fails here does not start the clock */
    target_read_cpu(target);
    target->source->drain_all(target, now_monotonic_ns());
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (capture->state == CAPTURE_CLOSING || capture->state == CAPTURE_RUNNING)
            cpu_capture_conclude(capture);
    }
    stacks_release(target->stacks);
    target->stacks = NULL;
    if (target->source->stopped)
        target->source->stopped(target);
    target->clock = CLOCK_IDLE;
    clock_adjust(target);
}

static void publish(struct target *target, const struct clock_answer *answer) {
    struct engine *engine = target->engine;
    struct engine_target *info = &target->info;
    lock_take(&engine->targets_lock);
    if (answer->clock[0])
        snprintf(info->clock, sizeof info->clock, "%s", answer->clock);
    snprintf(info->clock_note, sizeof info->clock_note, "%s", answer->note);
    if (answer->threads)
        info->threads = answer->threads;
    lock_drop(&engine->targets_lock);
}

static void fail_all(struct target *target, sonde_err err, const char *text) {
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (capture->state == CAPTURE_WAITING)
            cpu_capture_fail(capture, err, text);
    }
}

static void on_running(struct target *target) {
    if (target->clock == CLOCK_RUNNING)
        return;
    if (!target->stacks)
        target->stacks = samples_new_stacks(target);
    if (!target->stacks) {
        fail_all(target, SONDE_OUT_OF_MEMORY,
                 "no memory for stacks: sonded's is used up, or the share of the target's user; "
                 "end some of that user's captures or programs");
        stop(target);
        return;
    }
    target->clock = CLOCK_RUNNING;
    if (target->source->started)
        target->source->started(target);
    target->next_drain_ns = now_monotonic_ns() + drain_pause(target);
    begin_waiting(target, clock_is_for_recordings(target));
}

static void on_refused(struct target *target, const struct clock_answer *answer) {
    char text[320];
    bool lacks_room = answer->os_error == ENOMEM && answer->note[0];
    if (lacks_room)
        snprintf(text, sizeof text, "%.100s cannot be sampled: %s", target->info.name,
                 answer->note);
    else
        snprintf(text, sizeof text, "no sampling clock can be armed in %s%s%s%s%s",
                 target->info.name, answer->note[0] ? ": " : "", answer->note,
                 answer->os_error ? ": " : "",
                 answer->os_error ? strerrordesc_np(answer->os_error) : "");
    clock_fail(target, SONDE_NO_CLOCK, text);
}

/* The guest may be stopped: a capture that somebody waits for fails, a recording begins when the
 * guest goes on. */
static void fail_late(struct target *target, uint64_t now_ns) {
    char text[160];
    snprintf(text, sizeof text,
             "%s did not start its sampling clock within %llu s; is the process stopped?",
             target->info.name, ENGINE_START_NS / 1000000000ull);
    target->clock_deadline_ns = now_ns + target->engine->start_ns;
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        if (capture->state != CAPTURE_WAITING || !capture->wait_end_ns)
            continue;
        if (now_ns >= capture->wait_end_ns)
            cpu_capture_fail(capture, SONDE_NOT_AVAILABLE, text);
        else
            target->clock_deadline_ns = earlier(target->clock_deadline_ns, capture->wait_end_ns);
    }
    clock_adjust(target);
}

void clock_fail(struct target *target, sonde_err err, const char *text) {
    fail_all(target, err, text);
    clock_stopped(target);
}

/* Concludes the captures whose flush the guest has answered. */
static void conclude_flushed(struct target *target, uint32_t sequence) {
    target->source->drain_all(target, now_monotonic_ns());
    for (struct cpu_capture *capture = target->captures; capture; capture = capture->next) {
        bool waits = capture->state == CAPTURE_CLOSING && capture->flush_sequence != 0;
        if (waits && (int32_t)(sequence - capture->flush_sequence) >= 0)
            cpu_capture_conclude(capture);
    }
}

void clock_on_answer(struct target *target, const struct clock_answer *answer) {
    bool is_current = (int32_t)(answer->sequence - target->start_sequence) >= 0;
    bool is_starting = target->clock == CLOCK_STARTING || target->clock == CLOCK_RUNNING;
    bool is_last = !answer->is_running && answer->sequence == target->sequence;
    target->has_process_clock = strcmp(answer->clock, "itimer") == 0;
    target_wake_now(target);
    if (is_starting && is_current && answer->is_running)
        on_running(target);
    if (is_starting && answer->is_running)
        conclude_flushed(target, answer->sequence);
    publish(target, answer); /* only after the waiting captures have begun */
    if (is_starting && is_current && !answer->is_running)
        on_refused(target, answer);
    else if (target->clock == CLOCK_STOPPING && is_last)
        clock_stopped(target);
}

/* Handles the clock's own deadlines. */
void clock_tick(struct target *target, uint64_t now_ns) {
    bool is_late = now_ns >= target->clock_deadline_ns;
    if (target->clock == CLOCK_STARTING && is_late)
        fail_late(target, now_ns);
    if (target->clock == CLOCK_STOPPING && is_late)
        clock_stopped(target);
    bool is_drained = target->clock == CLOCK_RUNNING || target->clock == CLOCK_STOPPING;
    if (is_drained && now_ns >= target->next_drain_ns) {
        target_read_cpu(target);
        bool has_more = target->source->drain(target, now_ns, ENGINE_DRAIN_BYTES);
        target->next_drain_ns = has_more ? now_ns + 1 : now_ns + drain_pause(target);
    }
}
