/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel as a source of samples: what clock.c asks of a host target is passed on to its
 * stream. */
#include "service/engine/host/stream/waits.h"

#include "service/engine/capture/budget.h"
#include "service/engine/capture/clock.h"
#include "service/host/processes/process_text.h"

#include <stdio.h>

#define ACCOUNT_NS 1000000000ull
#define COUNTED_NS 100000000ull /* a counted event can become frequent at once */

static void set_periods(struct target *target, uint64_t period_ns, uint64_t wall_period_ns) {
    struct host_target *host = target->host;
    host->asked_ns = now_monotonic_ns();
    if (host->stream) {
        counted_look(host->stream);
        stream_set_period(host->stream);
        waits_ask(host->stream);
    } else if (period_ns && !stream_join(target)) {
        host->is_out_of_memory = true;
    }
    target_wake_now(target);
}

static bool drain(struct target *target, uint64_t now_ns, uint64_t budget) {
    struct host_stream *stream = target->host->stream;
    if (!stream)
        return false;
    /* Targets that share a stream drain it in turn. */
    if (!stream->has_more && now_ns < stream->drained_ns + ENGINE_DRAIN_NS / 2 &&
        !stream->park.has_news)
        return false;
    bool has_more = stream_drain(stream, now_ns - HOST_LATE_NS, target->engine->turn_ns);
    unseen_settle(stream, false);
    if (target->clock == CLOCK_RUNNING) /* drain_all needs the last look */
        counted_settle(stream, false);
    return has_more;
}

/* The cost of a sample is measured about as often as a guest reports it. */
static void account(struct target *target, uint64_t now_ns) {
    struct host_target *host = target->host;
    uint64_t pause_ns = host->event.id == SONDE_ON_CPU ? ACCOUNT_NS : COUNTED_NS;
    if (target->clock != CLOCK_RUNNING || now_ns < host->accounted_ns + pause_ns)
        return;
    host->accounted_ns = now_ns;
    if (budget_on_account(target))
        clock_adjust(target);
}

static void drain_all(struct target *target, uint64_t now_ns) {
    struct host_stream *stream = target->host->stream;
    if (!stream)
        return;
    (void)stream_drain(stream, now_ns, target->engine->last_ns);
    unseen_settle(stream, true);
    counted_settle(stream, true);
}

static bool is_busy(const struct target *target) {
    return target->host->stream && target->host->stream->is_busy;
}

/* Of several processes, the sum is not known. */
static void read_cpu(struct target *target) {
    if (target->host->members != HOST_ONE || target->host->is_over)
        return;
    uint64_t now_ns = process_cpu_ns(target->host->pid);
    if (target->cpu_seen_ns != 0 && now_ns > target->cpu_seen_ns)
        target->totals.target_cpu_ns += now_ns - target->cpu_seen_ns;
    target->cpu_seen_ns = now_ns ? now_ns : target->cpu_seen_ns;
}

static void write_counted_note(const struct target *target, char *note, size_t size) {
    snprintf(note, size, "%s",
             target->host->stream->has_kernel ? ""
                                              : "events in the kernel are not counted: that needs "
                                                "CAP_PERFMON (sonde doctor)");
}

/* A clock that stops keeps its note. */
static void write_note(const struct target *target, bool is_running, char *note, size_t size) {
    const struct host_stream *stream = target->host->stream;
    char waits[192] = "";
    if (target->wall_period_ns)
        waits_note(stream, waits, sizeof waits);
    if (!is_running)
        snprintf(note, size, "%s", target->info.clock_note);
    else if (counted_is_on(stream))
        write_counted_note(target, note, size);
    else if (!stream->is_all)
        snprintf(note, size, "%s%stime in the kernel has no stacks: %s", waits,
                 waits[0] ? "; " : "", target->engine->host->all_refused);
    else
        snprintf(note, size, "%s", waits);
}

static void answer(struct target *target, bool is_running) {
    char note[192];
    write_note(target, is_running, note, sizeof note);
    struct clock_answer answer = {
        .sequence = target->sequence,
        .is_running = is_running,
        .clock = counted_is_on(target->host->stream) ? "perf-event"
                 : target->host->stream->is_all      ? "perf-cpu"
                                                     : "perf-task",
        .note = note,
    };
    target->host->answered = target->sequence;
    clock_on_answer(target, &answer);
}

static void fail(struct target *target, sonde_err err, const char *text) {
    target->host->is_out_of_memory = false;
    clock_fail(target, err, text);
}

/* Answers when all that was recorded before the request is counted. */
static uint64_t finish_request(struct target *target, uint64_t now_ns) {
    struct host_target *host = target->host;
    struct host_stream *stream = host->stream;
    uint64_t asked_ns = host->asked_ns;
    bool is_patient = now_ns < asked_ns + HOST_STOP_NS;
    if (now_ns < asked_ns + HOST_LATE_NS)
        return asked_ns + HOST_LATE_NS;
    if (is_patient && stream->drained_to_ns < asked_ns &&
        stream_drain(stream, now_ns - 1, target->engine->turn_ns))
        return now_ns + 1;
    if (stream->park.has_news)
        (void)stream_drain(stream, stream->drained_to_ns, target->engine->turn_ns);
    if (is_patient && (!waits_are_flushed(stream) || park_has_before(&stream->park, asked_ns)))
        return now_ns + ENGINE_NAMES_LOOK_NS;
    if (!is_patient)
        park_empty(stream);
    answer(target, target->period_ns != 0);
    return 0;
}

static uint64_t tick(struct target *target, uint64_t now_ns) {
    struct host_target *host = target->host;
    struct host_stream *stream = host->stream;
    if (host->is_out_of_memory || !stream) {
        fail(target, SONDE_OUT_OF_MEMORY, "out of memory");
        return 0;
    }
    stream_tick(stream, now_ns);
    account(target, now_ns);
    if (stream->state == STREAM_FAILED) {
        struct sonde_diag diag = stream->diag;
        fail(target, diag.code, diag.text);
        return 0;
    }
    uint64_t waits_ns = earlier(waits_tick(stream, now_ns), counted_due(stream, now_ns));
    bool is_opening = stream->state == STREAM_OPENING ||
                      (target->clock == CLOCK_STARTING && !waits_are_ready(stream));
    if (is_opening && target->period_ns == 0)
        answer(target, false);
    else if (is_opening || host->answered == target->sequence)
        return waits_ns;
    else if (target->clock == CLOCK_STARTING)
        answer(target, true);
    else
        return earlier(finish_request(target, now_ns), waits_ns);
    return host->stream ? waits_ns : 0;
}

bool host_waits(struct target *target, uint64_t now_ns) {
    struct host_target *host = target->host;
    if (host->over_ns == 0)
        host->over_ns = now_ns;
    return host->stream && host->stream->park.first && now_ns < host->over_ns + HOST_STOP_NS;
}

static void stopped(struct target *target) {
    stream_leave(target);
}

const struct source_ops host_source = {
    .set_periods = set_periods,
    .drain = drain,
    .drain_all = drain_all,
    .is_busy = is_busy,
    .read_cpu = read_cpu,
    .last_wait_ns = 2 * HOST_STOP_NS,
    .is_late = true,
    .stopped = stopped,
    .tick = tick,
};
