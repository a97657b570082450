/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/capture/budget.h"
#include "service/engine/capture/clock.h"
#include "service/engine/capture/growth.h"
#include "service/engine/capture/samples.h"

#include <stdlib.h>
#include <string.h>

static const struct capture_ops ops;

struct cpu_capture *cpu_capture_create(struct target *target, const struct engine_cpu_spec *spec,
                                       const struct engine_capture_events *events, void *context) {
    struct cpu_capture *capture = calloc(1, sizeof *capture);
    if (!capture)
        return NULL;
    capture_init(&capture->base, &ops, target, events, context);
    capture->spec = *spec;
    capture->spec.target = (struct engine_selector){0};
    capture->is_counted = sonde_event_is_counted(spec->event);
    capture->by_number = capture->is_counted && spec->every;
    capture->period_ns = capture->by_number
                             ? spec->every
                             : (1000000000ull + spec->frequency_hz / 2) / spec->frequency_hz;
    /* Bins count samples, and those of a rate stand for very different numbers of events. */
    if (capture->is_counted)
        capture->spec.has_timeline = false;
    bool is_growth = spec->event == SONDE_GROWTH;
    capture->unit =
        is_growth || (capture->is_counted && !capture->by_number) ? 1 : capture->period_ns;
    /* Half of what 63 bits of nanoseconds hold, so that no sum can overflow. */
    capture->limit_samples = (uint64_t)INT64_MAX / 2 / capture->unit;
    if (spec->max_samples != 0 && spec->max_samples < capture->limit_samples)
        capture->limit_samples = spec->max_samples;
    capture->growth = is_growth ? growth_create(capture) : NULL;
    if (!is_growth || capture->growth)
        return capture;
    capture_release(&capture->base); /* the place on the target, */
    capture_release(&capture->base); /* and the handle */
    return NULL;
}

static void window_finish(struct window *window) {
    for (uint32_t i = 0; i < window->part_count; i++) {
        stacks_release(window->parts[i].stacks);
        counts_finish(&window->parts[i].counts);
    }
    window->part_count = 0;
    time_bins_finish(&window->bins);
}

static void destroy(struct engine_capture *base) {
    struct cpu_capture *capture = container_of(base, struct cpu_capture, base);
    window_finish(&capture->window);
    downsampler_finish(&capture->downsampler);
    growth_destroy(capture->growth);
    free(capture);
}

static void enlist(struct engine_capture *base) {
    struct cpu_capture *capture = container_of(base, struct cpu_capture, base);
    downsampler_init(&capture->downsampler, capture->unit, engine_random(base->engine));
    if (!capture->spec.is_recording || !base->target->guest)
        capture->wait_end_ns = now_monotonic_ns() + base->engine->start_ns;
    capture->next = base->target->captures;
    base->target->captures = capture;
}

static void begin(struct engine_capture *base) {
    clock_adjust(base->target);
}

static void fail(struct engine_capture *base, sonde_err err, const char *text) {
    cpu_capture_fail(container_of(base, struct cpu_capture, base), err, text);
}

static const struct capture_ops ops = {enlist, begin, fail, destroy};

/* How long a window that opens now stays open. Those of a recording end when Unix time is a
 * multiple of their length. A rest of less than a tenth belongs to the window after it: the clock
 * was read a moment early. */
static uint64_t window_length_ns(const struct cpu_capture *capture, int64_t unix_ns) {
    uint64_t length_ns = capture->spec.window_ms * 1000000ull;
    if (!capture->spec.is_recording || unix_ns < 0)
        return length_ns;
    uint64_t rest_ns = length_ns - (uint64_t)unix_ns % length_ns;
    return rest_ns < length_ns / 10 ? rest_ns + length_ns : rest_ns;
}

static void window_add_part(struct window *window, const struct target *target) {
    struct report_part *part = &window->parts[window->part_count++];
    part->stacks = stacks_retain(target->stacks);
    part->counts.share.uid = part->stacks->share.uid;
}

static void window_open(struct cpu_capture *capture, uint64_t now_ns, int64_t unix_ns) {
    struct window *window = &capture->window;
    uint64_t sequence = window->sequence;
    memset(window, 0, sizeof *window);
    window->sequence = sequence;
    window->start_ns = now_ns;
    window->start_unix_ns = unix_ns;
    window->base = capture->base.target->totals;
    window_add_part(window, capture->base.target);
    if (capture->spec.window_ms)
        capture->window_end_ns = now_ns + window_length_ns(capture, unix_ns);
}

void cpu_capture_begin(struct cpu_capture *capture, uint64_t now_ns) {
    capture->state = CAPTURE_RUNNING;
    capture->start_ns = now_ns;
    capture->first = capture->base.target->totals;
    capture->rate.since_ns = now_ns;
    window_open(capture, now_ns, now_unix_ns());
    if (capture->growth)
        growth_begin(capture->growth);
    else
        cpu_capture_set_times(capture, now_ns);
}

void cpu_capture_set_times(struct cpu_capture *capture, uint64_t now_ns) {
    if (capture->spec.duration_ms)
        capture->end_ns = now_ns + capture->spec.duration_ms * 1000000ull;
    if (capture->spec.progress_ms)
        capture->progress_ns = now_ns; /* the first event says that sampling has begun */
}

bool cpu_capture_is_counting(const struct cpu_capture *capture) {
    return capture->state == CAPTURE_RUNNING || capture->state == CAPTURE_CLOSING;
}

bool cpu_capture_can_renew(const struct cpu_capture *capture) {
    return capture->window.part_count < REPORT_MAX_PARTS;
}

void cpu_capture_renew(struct cpu_capture *capture) {
    window_add_part(&capture->window, capture->base.target);
}

static void count_drop(struct cpu_capture *capture, uint64_t n, bool lacks_memory) {
    *(lacks_memory ? &capture->window.lacking_memory : &capture->window.stacks_full) += n;
    capture->dropped += n;
    atomic_fetch_add_explicit(
        &capture->base.engine->drops[lacks_memory ? DROP_MEMORY : DROP_STACKS_FULL], n,
        memory_order_relaxed);
}

void cpu_capture_count(struct cpu_capture *capture, const struct count_key *key,
                       const struct spent *spent) {
    struct window *window = &capture->window;
    uint64_t room = capture->limit_samples - capture->samples;
    uint64_t n = capture->pending < room || (capture->is_counted && room) ? capture->pending : room;
    uint64_t samples = capture->is_counted ? n > 0 : n;
    struct counts *counts = &window->parts[window->part_count - 1].counts;
    if (n == 0 && capture->pending_waits == 0)
        return;
    double waits = capture->is_counted ? (double)samples : capture->pending_waits;
    struct count_key own = key ? *key : (struct count_key){0};
    own.lock = capture->spec.has_locks ? own.lock : 0;
    sonde_err err = !key              ? SONDE_TOO_LARGE
                    : capture->growth ? growth_add(capture->growth, &own, spent)
                                      : counts_add(counts, &own, n, waits);
    if (err) {
        const struct stacks *stacks = window->parts[window->part_count - 1].stacks;
        bool lacks_memory = key ? err == SONDE_OUT_OF_MEMORY : stacks && stacks->lacks_memory;
        count_drop(capture, samples, lacks_memory);
        return;
    }
    if (capture->spec.has_timeline && n > 0)
        time_bins_add(&window->bins, window->part_count - 1, counts->last, &capture->pending_span,
                      window->start_ns, samples);
    window->samples += samples;
    capture->samples += samples;
    atomic_fetch_add_explicit(&capture->base.engine->samples_total, samples, memory_order_relaxed);
    if (!spent->has_stack)
        return;
    window->cut_stacks[spent->end] += samples;
    window->truncated += spent->end == STACK_END_DEPTH ? samples : 0;
    window->forgotten += spent->is_forgotten ? samples : 0;
}

void cpu_capture_note_rate(struct cpu_capture *capture, uint64_t now_ns) {
    const struct target *target = capture->base.target;
    bool is_off_cpu = capture->spec.event == SONDE_OFF_CPU;
    uint64_t period_ns = is_off_cpu ? target->wall_period_ns : target->period_ns;
    if (capture->is_counted) { /* its rate is that of its samples */
        uint64_t now = target->period_ns;
        capture->longest_period = now > capture->longest_period ? now : capture->longest_period;
        return;
    }
    if (capture->state != CAPTURE_RUNNING || period_ns == 0 || now_ns <= capture->rate.since_ns)
        return;
    if (period_ns < capture->period_ns)
        period_ns = capture->period_ns; /* another capture wants a higher rate */
    double hz = 1e9 / (double)period_ns;
    capture->rate.sum += hz * (double)(now_ns - capture->rate.since_ns);
    capture->rate.since_ns = now_ns;
    if (capture->rate.lowest_hz == 0 || hz < capture->rate.lowest_hz)
        capture->rate.lowest_hz = hz;
}

/* Asks the source to record what it knows of threads that are still blocked. */
static void await_flush(struct cpu_capture *capture, uint64_t now_ns) {
    clock_request_flush(capture->base.target);
    capture->flush_sequence = capture->base.target->sequence;
    capture->flush_deadline_ns = now_ns + capture->base.target->source->last_wait_ns;
}

/* Stops using the tick stream. If no other capture uses it, the guest stops its clock, and this
 * capture waits for the last records. */
void cpu_capture_close(struct cpu_capture *capture) {
    struct target *target = capture->base.target;
    uint64_t now_ns = now_monotonic_ns();
    if (capture->state == CAPTURE_WAITING) { /* finished before it began: an empty result */
        capture->window.start_ns = now_ns;
        capture->window.start_unix_ns = now_unix_ns();
        capture->window.base = target->totals;
        cpu_capture_conclude(capture);
        clock_adjust(target);
        return;
    }
    target_read_cpu(target);
    target->source->drain_all(target, now_ns);
    cpu_capture_note_rate(capture, now_ns);
    capture->state = CAPTURE_CLOSING;
    capture->closed_ns = now_ns;
    capture->closed_cpu_ns = target->totals.target_cpu_ns;
    if (capture->growth)
        growth_end(capture->growth);
    clock_adjust(target);
    if (target->clock == CLOCK_STOPPING)
        return;
    bool has_more = capture->spec.event != SONDE_ON_CPU || target->source->is_late;
    if (has_more && target->clock == CLOCK_RUNNING)
        await_flush(capture, now_ns);
    else
        cpu_capture_conclude(capture);
}

/* Counts what has grown. False: it is not known yet, or the capture has failed. */
static bool conclude_growth(struct cpu_capture *capture) {
    struct sonde_diag diag = {0};
    if (capture->state == CAPTURE_RUNNING) { /* the target has ended */
        capture->closed_ns = now_monotonic_ns();
        capture->closed_cpu_ns = capture->base.target->totals.target_cpu_ns;
    }
    capture->state = CAPTURE_CLOSING;
    capture->flush_sequence = 0;
    if (!growth_conclude(capture->growth))
        return false;
    if (growth_error(capture->growth, &diag) != SONDE_OK) {
        cpu_capture_fail(capture, diag.code, diag.text);
        return false;
    }
    growth_count(capture->growth, &capture->grown);
    return true;
}

void cpu_capture_conclude(struct cpu_capture *capture) {
    if (capture->growth && !conclude_growth(capture))
        return;
    capture->state = CAPTURE_REPORTING;
    jobs_report(capture, capture->closed_ns ? capture->closed_ns : now_monotonic_ns());
    jobs_end(capture, SONDE_OK, NULL);
    target_wake_now(capture->base.target);
}

void cpu_capture_next_window(struct cpu_capture *capture, uint64_t now_ns, int64_t unix_ns) {
    capture->window.sequence++;
    window_open(capture, now_ns, unix_ns);
}

void cpu_capture_fail(struct cpu_capture *capture, sonde_err err, const char *text) {
    struct sonde_diag diag = {.code = err};
    if (capture->is_last_event_running)
        return;
    if (text)
        (void)sonde_fail(&diag, err, "%s", text);
    jobs_drop_queued(capture);
    window_finish(&capture->window);
    capture->state = CAPTURE_REPORTING;
    jobs_end(capture, err, text ? &diag : NULL);
    clock_adjust(capture->base.target);
}

static void close_window(struct cpu_capture *capture, uint64_t now_ns) {
    if (capture->job_count >=
        ENGINE_MAX_QUEUED_JOBS) { /* the receiver is slow: keep the window open */
        capture->window_end_ns = now_ns + capture->spec.window_ms * 1000000ull;
        return;
    }
    target_read_cpu(capture->base.target);
    struct target *target = capture->base.target;
    (void)target->source->drain(target, now_ns, ENGINE_DRAIN_BYTES);
    jobs_report(capture, now_ns);
    if (capture->spec.is_recording)
        samples_trim_stacks(capture->base.target);
}

/* Times in a store are whole seconds, so a shorter window would overlap the next one. */
static void cut_window(struct cpu_capture *capture, uint64_t now_ns) {
    if (now_ns - capture->window.start_ns >= ENGINE_CUT_NS &&
        capture->job_count < ENGINE_MAX_QUEUED_JOBS)
        close_window(capture, now_ns);
}

static bool is_over(const struct cpu_capture *capture, uint64_t now_ns) {
    return (capture->end_ns != 0 && now_ns >= capture->end_ns) ||
           capture->samples >= capture->limit_samples ||
           atomic_load(&capture->base.is_finish_requested);
}

static void tick_running(struct cpu_capture *capture, uint64_t now_ns) {
    bool is_cut_due = capture->base.is_cut_due;
    capture->base.is_cut_due = false;
    if (is_over(capture, now_ns)) {
        cpu_capture_close(capture);
        return;
    }
    if (capture->window_end_ns != 0 && now_ns >= capture->window_end_ns)
        close_window(capture, now_ns);
    else if (is_cut_due && capture->spec.is_recording)
        cut_window(capture, now_ns);
    if (capture->progress_ns != 0 && now_ns >= capture->progress_ns) {
        jobs_progress(capture, now_ns);
        capture->progress_ns = now_ns + capture->spec.progress_ms * 1000000ull;
    }
}

uint64_t cpu_capture_tick(struct cpu_capture *capture, uint64_t now_ns) {
    uint64_t wake_ns = 0;
    if (capture->state == CAPTURE_WAITING && atomic_load(&capture->base.is_finish_requested))
        cpu_capture_close(capture);
    if (capture->state == CAPTURE_RUNNING)
        tick_running(capture, now_ns);
    if (capture->state == CAPTURE_CLOSING && capture->flush_sequence) {
        if (now_ns >= capture->flush_deadline_ns)
            cpu_capture_conclude(capture);
        else
            wake_ns = capture->flush_deadline_ns;
    }
    if (capture->state == CAPTURE_RUNNING)
        wake_ns = earlier(capture->end_ns, earlier(capture->window_end_ns, capture->progress_ns));
    return earlier(wake_ns, jobs_run(capture, now_ns));
}
