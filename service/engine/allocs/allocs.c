/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/allocs/allocs.h"

#include "service/engine/heap/heap_state.h"
#include "service/engine/memory_report/alloc_report.h"
#include "service/engine/sessions/session.h"
#include "service/engine/targets/find_target.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_MS           3600000u
#define DEFAULT_LEASE_MS 600000u

struct window_job {
    struct job job;
    struct allocs_window *window; /* retained */
    struct engine_progress progress;
    sonde_err err; /* of the work */
};

static void window_release(struct allocs_window *window) {
    capture_release(&window->base);
}

static void destroy(struct engine_capture *base) {
    struct allocs_window *window = container_of(base, struct allocs_window, base);
    alloc_sums_finish(&window->before);
    alloc_view_release(window->view);
    sonde_buf_finish(&window->maps);
    mapping_lives_release(window->lives);
    free(window);
}

/* ---- Jobs ---- */

/* False when out of memory. */
static bool start_job(struct allocs_window *window, const struct engine_progress *progress,
                      void (*perform)(struct job *),
                      void (*complete)(struct engine *, struct job *)) {
    struct engine *engine = window->base.engine;
    struct window_job *job = calloc(1, sizeof *job);
    if (!job)
        return false;
    job->job.perform = perform;
    job->job.complete = complete;
    job->window = window;
    if (progress)
        job->progress = *progress;
    capture_retain(&window->base);
    window->job_runs = true;
    target_start_job(window->base.target, engine->reporters, &job->job);
    return true;
}

static struct allocs_window *end_job(struct job *base) {
    struct window_job *job = container_of(base, struct window_job, job);
    struct allocs_window *window = job->window;
    window->job_runs = false;
    target_wake_now(window->base.target);
    free(job);
    return window;
}

static void on_job_done(struct engine *engine, struct job *base) {
    window_release(end_job(base));
}

/* ---- The shared sampler ---- */

static void on_sampler_answer(struct heap_call *call, const sonde_guest_v1_HeapAnswer *answer,
                              int fd);

/* Requests a sampler that satisfies all windows; when there are none, requests that it stop. A
 * window needs it until its result is built. */
static void request_sampler(struct target *target) {
    struct heap *heap = heap_of(target);
    struct heap_call *call = heap ? calloc(1, sizeof *call) : NULL;
    if (!call)
        return; /* out of memory: the next window's request covers this one */
    call->target = target_retain(target);
    call->verb = sonde_guest_v1_HeapVerb_HEAP_ALLOCS;
    call->done = on_sampler_answer;
    uint32_t number = ++target->sampler_requests;
    call->context = (void *)(uintptr_t)number;
    for (struct allocs_window *window = target->windows; window; window = window->next) {
        const struct engine_allocs_spec *spec = &window->spec;
        if (window->is_gone)
            continue;
        if (spec->probability > call->probability)
            call->probability = spec->probability;
        if (spec->sample_bytes && (!call->sample_bytes || spec->sample_bytes < call->sample_bytes))
            call->sample_bytes = spec->sample_bytes;
        if (window->state == ALLOCS_WAITING && !window->request_number)
            window->request_number = number;
    }
    heap_send(heap, call);
}

/* ---- The end ---- */

static void report(struct job *base) {
    struct allocs_window *window = container_of(base, struct window_job, job)->window;
    const struct engine_capture_events *events = &window->base.events;
    struct sonde_profile *profile = NULL;
    struct engine_metadata metadata = {0};
    sonde_err err = window->err;
    if (!err)
        err = allocs_build(window, &profile, &metadata, &window->diag);
    if (!err)
        events->on_profile(window->base.context, profile, &metadata);
    capture_unreserve(window->base.target);
    events->on_end(window->base.context, err, err ? &window->diag : NULL);
}

/* The result is built, so the sampler and its table may go. */
static void on_reported(struct engine *engine, struct job *base) {
    struct allocs_window *window = end_job(base), **at = &window->base.target->windows;
    while (*at && *at != window)
        at = &(*at)->next;
    if (*at)
        *at = window->next;
    if (window->request_number)
        request_sampler(window->base.target);
    window_release(window);
    window_release(window); /* for the place on the target */
}

static void close_window(struct allocs_window *window) {
    window->state = ALLOCS_REPORTING;
    if (window->start_unix_ns)
        window->end_unix_ns =
            window->start_unix_ns + (int64_t)(now_monotonic_ns() - window->start_ns);
    else
        window->start_unix_ns = window->end_unix_ns = now_unix_ns();
}

static void fail_window(struct allocs_window *window, sonde_err err, const char *text) {
    if (window->state == ALLOCS_REPORTING)
        return;
    window->err = sonde_fail(&window->diag, err, "%s", text);
    close_window(window);
}

/* ---- The beginning ---- */

static void run_window(struct allocs_window *window) {
    uint64_t now_ns = now_monotonic_ns();
    window->state = ALLOCS_RUNNING;
    window->start_ns = now_ns;
    window->start_unix_ns = now_unix_ns();
    if (window->spec.duration_ms)
        window->end_ns = now_ns + window->spec.duration_ms * 1000000ull;
    if (window->spec.progress_ms)
        window->progress_ns = now_ns + window->spec.progress_ms * 1000000ull;
    if (window->base.events.on_begin)
        window->base.events.on_begin(window->base.context);
    target_wake_now(window->base.target);
}

static void read_base(struct job *base) {
    struct window_job *job = container_of(base, struct window_job, job);
    struct allocs_window *window = job->window;
    alloc_report_read_maps(window->process, &window->maps);
    job->err = alloc_view_read(window->view, &(struct alloc_choice){0}, &window->before);
}

static void on_base_read(struct engine *engine, struct job *base) {
    sonde_err err = container_of(base, struct window_job, job)->err;
    struct allocs_window *window = end_job(base);
    if (err)
        fail_window(window, err, "the sampler's table could not be read");
    else if (window->state == ALLOCS_READING_BASE)
        run_window(window);
    window_release(window);
}

static void begin_window(struct allocs_window *window) {
    window->state = ALLOCS_READING_BASE;
    if (!start_job(window, NULL, read_base, on_base_read))
        fail_window(window, SONDE_OUT_OF_MEMORY, "out of memory");
}

static void begin_with_table(struct allocs_window *window, const struct heap *heap,
                             const sonde_guest_v1_HeapAnswer *answer) {
    window->view = alloc_view_retain(heap->table);
    memcpy(window->allocator, answer->allocator,
           strnlen(answer->allocator, sizeof window->allocator - 1));
    window->has_hooks = answer->alloc_hooks;
    window->has_other = !answer->alloc_hooks && answer->program_imports == 0;
    begin_window(window);
}

/* ---- The guest's answer ---- */

static sonde_err check_answer(const struct heap *heap, const sonde_guest_v1_HeapAnswer *answer,
                              struct sonde_diag *diag) {
    const char *name = heap->target->info.name;
    if (answer && !answer->symbol[0] && heap->is_stripped)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE, "%s", heap->state.note);
    if (answer && answer->os_error == 0)
        return heap->table ? SONDE_OK
                           : sonde_fail(diag, SONDE_NOT_AVAILABLE, "%s sent no table", name);
    if (answer && answer->os_error == ENOTSUP && answer->in_program && answer->symbol[0])
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "the jemalloc of %s is part of the program and has no allocation hooks, "
                          "which came with jemalloc 5.2, so nothing can see its allocations",
                          name);
    if (answer && answer->os_error == EAGAIN)
        return sonde_fail(diag, SONDE_NOT_AVAILABLE,
                          "%s uses all of its jemalloc's allocation hooks itself", name);
    return heap_check_answer(heap, answer, diag);
}

static sonde_err refuse_endless(const struct heap *heap, struct sonde_diag *diag) {
    return sonde_fail(
        diag, SONDE_NOT_AVAILABLE,
        "the jemalloc of %s is part of the program, and sampling it all the time would "
        "slow it down; ask for some seconds, or start it with "
        "MALLOC_CONF=prof:true,prof_accum:true, which keeps totals itself",
        heap->target->info.name);
}

static void begin_answered(struct allocs_window *window, struct heap *heap,
                           const sonde_guest_v1_HeapAnswer *answer) {
    struct sonde_diag diag = {0};
    sonde_err err = check_answer(heap, answer, &diag);
    if (!err && answer->alloc_hooks && window->spec.is_endless)
        err = refuse_endless(heap, &diag);
    if (!err)
        begin_with_table(window, heap, answer);
    else
        fail_window(window, err, diag.text);
}

static void on_sampler_answer(struct heap_call *call, const sonde_guest_v1_HeapAnswer *answer,
                              int fd) {
    struct target *target = call->target;
    uint32_t number = (uint32_t)(uintptr_t)call->context;
    if (fd >= 0)
        close(fd);
    for (struct allocs_window *window = target->windows; window; window = window->next)
        if (window->state == ALLOCS_WAITING && window->request_number &&
            window->request_number <= number)
            begin_answered(window, target->heap, answer);
    target_wake_now(target);
    heap_call_free(call);
}

/* ---- Time ---- */

static void progress(struct job *base) {
    struct window_job *job = container_of(base, struct window_job, job);
    const struct engine_capture *handle = &job->window->base;
    handle->events.on_progress(handle->context, &job->progress);
}

static void report_progress(struct allocs_window *window, uint64_t now_ns) {
    struct engine_progress event = {
        .elapsed_ms = (uint32_t)((now_ns - window->start_ns) / 1000000),
        .duration_ms = window->spec.duration_ms,
        .samples = alloc_view_samples(window->view) - window->before.samples,
        .dropped = alloc_view_dropped(window->view) - window->before.dropped,
        .hottest = "",
    };
    window->progress_ns = now_ns + window->spec.progress_ms * 1000000ull;
    if (window->base.events.on_progress && !window->job_runs)
        (void)start_job(window, &event, progress, on_job_done);
}

static void look_at_flags(struct allocs_window *window, uint64_t now_ns) {
    bool is_over = atomic_load(&window->base.is_finish_requested) || window->is_gone ||
                   (window->end_ns != 0 && now_ns >= window->end_ns);
    if (is_over && window->state == ALLOCS_WAITING)
        close_window(window); /* before it began: an empty result */
    else if (is_over && window->state == ALLOCS_RUNNING)
        close_window(window);
}

static uint64_t tick_window(struct allocs_window *window, uint64_t now_ns) {
    look_at_flags(window, now_ns);
    if (window->state == ALLOCS_RUNNING && window->progress_ns != 0 &&
        now_ns >= window->progress_ns)
        report_progress(window, now_ns);
    if (window->state == ALLOCS_REPORTING && !window->job_runs && !window->is_reported) {
        mapping_lives_release(window->lives);
        window->lives = mapping_lives_retain(window->base.target->lives);
        window->is_reported = start_job(window, NULL, report, on_reported);
        return window->is_reported ? 0 : now_ns + 100000000;
    }
    return window->state == ALLOCS_RUNNING ? earlier(window->end_ns, window->progress_ns) : 0;
}

uint64_t allocs_tick(struct target *target, uint64_t now_ns) {
    uint64_t wake_ns = 0;
    for (struct allocs_window *window = target->windows; window; window = window->next)
        wake_ns = earlier(wake_ns, tick_window(window, now_ns));
    return wake_ns;
}

void allocs_detach(struct target *target) {
    bool is_ending = target->engine->is_shutting_down;
    for (struct allocs_window *window = target->windows; window; window = window->next) {
        window->is_gone = true;
        if (is_ending)
            fail_window(window, SONDE_UNAVAILABLE, "the service is shutting down");
        else if (window->state == ALLOCS_WAITING)
            fail_window(window, SONDE_TARGET_GONE, "the target ended before the window began");
    }
    target_wake_now(target);
}

/* ---- Requests ---- */

static sonde_err check(const struct engine_allocs_spec *spec, struct sonde_diag *diag) {
    bool has_each = spec->sample_bytes == 1 || spec->probability == 1;
    if (spec->duration_ms > MAX_MS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "duration %u ms: must be at most %u",
                          spec->duration_ms, MAX_MS);
    if (spec->sample_bytes > ENGINE_ALLOCS_MAX)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "sample_bytes: \"%llu\" is not a whole number from 1 to %u",
                          (unsigned long long)spec->sample_bytes, ENGINE_ALLOCS_MAX);
    if (!(spec->probability >= 0 && spec->probability <= 1))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "probability: \"%g\" is not between 0 and 1", spec->probability);
    if (spec->probability > 0 && spec->sample_bytes)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "sample_bytes and probability: set only one of them");
    if (has_each && spec->duration_ms > ENGINE_ALLOCS_EVERY_MS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "every allocation can be sampled for %u s at most, not for %g s: sample "
                          "fewer of them, or for a shorter time",
                          ENGINE_ALLOCS_EVERY_MS / 1000, spec->duration_ms / 1e3);
    return SONDE_OK;
}

static void enlist(struct engine_capture *base) {
    struct allocs_window *window = container_of(base, struct allocs_window, base);
    window->process = &base->target->process;
    window->next = base->target->windows;
    base->target->windows = window;
}

static void begin(struct engine_capture *base) {
    request_sampler(base->target);
}

static void fail(struct engine_capture *base, sonde_err err, const char *text) {
    fail_window(container_of(base, struct allocs_window, base), err, text);
}

static const struct capture_ops ops = {enlist, begin, fail, destroy};

static void init_window(struct allocs_window *window, const struct engine_allocs_spec *spec) {
    window->spec = *spec;
    window->spec.target = (struct engine_selector){0};
    if (spec->probability == 0 && spec->sample_bytes == 0)
        window->spec.sample_bytes = ENGINE_ALLOCS_SAMPLE;
}

sonde_err allocs_create(struct target *target, const struct engine_allocs_spec *spec,
                        const struct engine_capture_events *events, void *context,
                        struct engine_capture **capture, struct sonde_diag *diag) {
    *capture = NULL;
    sonde_err err = check(spec, diag);
    if (!err)
        err = capture_reserve(target, diag);
    if (err)
        return err;
    struct allocs_window *window = calloc(1, sizeof *window);
    if (window) {
        init_window(window, spec);
        capture_init(&window->base, &ops, target, events, context);
        *capture = &window->base;
    } else {
        capture_unreserve(target);
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    }
    return err;
}

sonde_err allocs_find(struct engine *engine, const struct engine_selector *selector,
                      struct target **target, struct sonde_diag *diag) {
    if (atomic_load(&engine->is_ending))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    return find_guest(engine, selector, "allocation profiles", target, diag);
}

sonde_err engine_capture_allocs(struct engine *engine, const struct engine_allocs_spec *spec,
                                const struct engine_capture_events *events, void *context,
                                struct engine_capture **capture, struct sonde_diag *diag) {
    struct target *target;
    *capture = NULL;
    sonde_err err = check(spec, diag);
    if (!err)
        err = allocs_find(engine, &spec->target, &target, diag);
    if (err)
        return err;
    err = allocs_create(target, spec, events, context, capture, diag);
    target_release(target);
    if (!err)
        capture_launch(*capture);
    return err;
}

static sonde_err begin_session(struct target *target, const struct session_plan *plan,
                               const struct engine_capture_events *events, void *context,
                               struct engine_capture **capture, struct sonde_diag *diag) {
    struct engine_allocs_spec spec = *(const struct engine_allocs_spec *)plan->spec;
    spec.duration_ms = plan->lease_ms;
    spec.progress_ms = 0;
    return allocs_create(target, &spec, events, context, capture, diag);
}

sonde_err engine_allocs_start(struct engine *engine, const struct engine_allocs_spec *spec,
                              uint32_t lease_ms, const char *owner, engine_on_session *on_started,
                              void *context, struct sonde_diag *diag) {
    bool has_each = spec->sample_bytes == 1 || spec->probability == 1;
    uint32_t default_ms = has_each ? ENGINE_ALLOCS_EVERY_MS : DEFAULT_LEASE_MS;
    struct session_plan plan = {.kind = SESSION_ALLOCS,
                                .spec = spec,
                                .lease_ms = lease_ms ? lease_ms : default_ms,
                                .owner = owner,
                                .begin = begin_session,
                                .on_started = on_started,
                                .context = context};
    struct target *target;
    sonde_err err = allocs_find(engine, &spec->target, &target, diag);
    return err ? err : session_start(target, &plan, NULL, diag);
}

sonde_err engine_allocs_stop(struct engine *engine, const struct engine_selector *selector,
                             const struct engine_capture_events *events, void *context,
                             struct sonde_diag *diag) {
    struct target *target;
    sonde_err err = allocs_find(engine, selector, &target, diag);
    return err ? err : session_stop(target, SESSION_ALLOCS, events, context, diag);
}
