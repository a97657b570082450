/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine has one lock, one thread that produces samples for all captures every few
 * milliseconds, and one worker. It calls event callbacks with the lock held, so they may only
 * post. */
#include "tests/unit/rpc/fake_engine.h"

#include "service/host/counters.h"
#include "service/host/rights.h"
#include "service/symbol/symbol.h"
#include "tests/unit/rpc/fake_parts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_TARGETS 256
#define MAX_WORK    1024
#define TICK_US     2000

struct engine_capture {
    struct engine *engine;
    struct engine_capture *next;
    struct engine_cpu_spec spec;
    bool is_of_allocs;
    struct engine_allocs_spec allocs;
    struct engine_capture_events events;
    void *context;
    pid_t pid;
    int64_t start_ns, window_ns, progress_ns;
    uint64_t sequence;
    bool finish, cancel, target_gone, is_over, is_released;
};

struct engine_watch {
    engine_on_target *on_event;
    void *context;
    struct engine_watch *next;
};

struct engine {
    pthread_mutex_t lock;
    pthread_cond_t work_came;
    pthread_t ticker, worker;
    bool ending, refuse_work, fresh;
    struct engine_target targets[MAX_TARGETS];
    size_t target_count;
    uint32_t attached; /* those of them that have a guest */
    struct engine_capture *captures;
    struct engine_watch *watches;
    struct engine_work *work, **work_last;
    size_t work_count;
    uint32_t stacks, name_len, cancelled, unreleased;
    uint64_t captures_total;
    _Atomic uint64_t result_by_ns;
};

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static struct engine_metadata make_facts(const struct engine_capture *capture, int64_t from_ns) {
    const struct engine *engine = capture->engine;
    uint32_t hz = capture->spec.frequency_hz;
    return (struct engine_metadata){.sequence = capture->sequence,
                                    .start_unix_ns = from_ns,
                                    .end_unix_ns = now_ns(),
                                    .period_ns = hz ? 1000000000u / hz : 0,
                                    .samples = engine->stacks * 10u,
                                    .dropped = 1,
                                    .truncated = 2,
                                    .drops = {{"ring_full", 1}},
                                    .drop_count = 1,
                                    .guest_cpu_ns = 1000,
                                    .target_cpu_ns = 1000000,
                                    .clock = "fake",
                                    .clock_note = "no clock at all",
                                    .target_gone = capture->target_gone};
}

static void give_profile(struct engine_capture *capture, int64_t from_ns) {
    struct engine *engine = capture->engine;
    struct engine_metadata metadata = make_facts(capture, from_ns);
    uint32_t first = engine->fresh ? (uint32_t)capture->sequence * engine->stacks : 0;
    struct sonde_profile *profile = capture->is_of_allocs
                                        ? fake_allocs(&capture->allocs, engine->stacks)
                                        : fake_profile(first, engine->stacks, engine->name_len);
    if (capture->spec.has_timeline)
        fake_timeline(profile);
    capture->events.on_profile(capture->context, profile, &metadata);
    capture->sequence++;
}

/* Sends the result, unless the capture was cancelled or the engine is stopping, and the end. */
static void end_capture(struct engine_capture *capture) {
    sonde_err err = capture->cancel           ? SONDE_CANCELLED
                    : capture->engine->ending ? SONDE_UNAVAILABLE
                                              : SONDE_OK;
    if (!err)
        give_profile(capture, capture->spec.window_ms ? capture->window_ns : capture->start_ns);
    capture->engine->cancelled += capture->cancel;
    capture->is_over = true;
    capture->events.on_end(capture->context, err, NULL);
}

static bool is_due(const struct engine_capture *capture, int64_t now) {
    bool is_time = capture->spec.duration_ms &&
                   now - capture->start_ns >= capture->spec.duration_ms * INT64_C(1000000);
    return is_time || capture->cancel || capture->finish || capture->target_gone ||
           capture->engine->ending;
}

static void tell_progress(struct engine_capture *capture, int64_t now) {
    struct engine_progress progress = {(uint32_t)((now - capture->start_ns) / 1000000),
                                       capture->spec.duration_ms,
                                       30,
                                       1,
                                       "f0\xff",
                                       0.5};
    capture->progress_ns = now;
    capture->events.on_progress(capture->context, &progress);
}

static void tick(struct engine_capture *capture, int64_t now) {
    const struct engine_cpu_spec *spec = &capture->spec;
    if (capture->is_over)
        return;
    if (is_due(capture, now)) {
        end_capture(capture);
        return;
    }
    if (spec->window_ms && now - capture->window_ns >= spec->window_ms * INT64_C(1000000)) {
        give_profile(capture, capture->window_ns);
        capture->window_ns = now;
    }
    bool wants_progress = spec->progress_ms && capture->events.on_progress;
    if (wants_progress && now - capture->progress_ns >= spec->progress_ms * INT64_C(1000000))
        tell_progress(capture, now);
}

static void sweep(struct engine *engine) {
    for (struct engine_capture **at = &engine->captures; *at;) {
        struct engine_capture *capture = *at;
        if (!capture->is_over || !capture->is_released) {
            at = &capture->next;
            continue;
        }
        *at = capture->next;
        free(capture);
    }
}

static void *run_ticker(void *context) {
    struct engine *engine = context;
    for (;;) {
        pthread_mutex_lock(&engine->lock);
        for (struct engine_capture *at = engine->captures; at; at = at->next)
            tick(at, now_ns());
        sweep(engine);
        bool ending = engine->ending;
        pthread_mutex_unlock(&engine->lock);
        if (ending)
            return NULL;
        usleep(TICK_US);
    }
}

static void *run_worker(void *context) {
    struct engine *engine = context;
    pthread_mutex_lock(&engine->lock);
    while (!engine->ending || engine->work) {
        struct engine_work *work = engine->work;
        if (!work) {
            pthread_cond_wait(&engine->work_came, &engine->lock);
            continue;
        }
        engine->work = work->next;
        if (!engine->work)
            engine->work_last = &engine->work;
        engine->work_count--;
        pthread_mutex_unlock(&engine->lock);
        work->run(work);
        pthread_mutex_lock(&engine->lock);
    }
    pthread_mutex_unlock(&engine->lock);
    return NULL;
}

struct engine *fake_engine_create(void) {
    struct engine *engine = calloc(1, sizeof *engine);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->work_came, NULL);
    engine->work_last = &engine->work;
    engine->stacks = 3;
    fake_session_forget();
    fake_engine_attach(engine, "demo", FAKE_PID);
    pthread_create(&engine->ticker, NULL, run_ticker, engine);
    pthread_create(&engine->worker, NULL, run_worker, engine);
    return engine;
}

void engine_destroy(struct engine *engine) {
    pthread_mutex_lock(&engine->lock);
    engine->ending = true;
    pthread_cond_signal(&engine->work_came);
    pthread_mutex_unlock(&engine->lock);
    pthread_join(engine->ticker, NULL);
    pthread_join(engine->worker, NULL);
    sweep(engine);
    pthread_mutex_destroy(&engine->lock);
    pthread_cond_destroy(&engine->work_came);
    free(engine);
}

bool engine_submit(struct engine *engine, struct engine_work *work) {
    pthread_mutex_lock(&engine->lock);
    bool is_taken = !engine->refuse_work && !engine->ending && engine->work_count < MAX_WORK;
    if (is_taken) {
        work->next = NULL;
        *engine->work_last = work;
        engine->work_last = &work->next;
        engine->work_count++;
        pthread_cond_signal(&engine->work_came);
    }
    pthread_mutex_unlock(&engine->lock);
    return is_taken;
}

static void tell_watches(struct engine *engine, bool attached, const struct engine_target *target) {
    for (struct engine_watch *watch = engine->watches; watch; watch = watch->next)
        watch->on_event(watch->context, attached, target);
}

void fake_engine_add(struct engine *engine, const char *name, pid_t pid, uid_t uid,
                     bool has_guest) {
    pthread_mutex_lock(&engine->lock);
    if (engine->target_count < MAX_TARGETS) {
        struct engine_target *target = &engine->targets[engine->target_count++];
        fake_target(target, name, pid);
        target->uid = uid;
        target->is_unattached = !has_guest;
        engine->attached += has_guest;
        if (has_guest)
            tell_watches(engine, true, target);
    }
    pthread_mutex_unlock(&engine->lock);
}

void fake_engine_attach(struct engine *engine, const char *name, pid_t pid) {
    fake_engine_add(engine, name, pid, 0, true);
}

void fake_engine_detach(struct engine *engine, pid_t pid) {
    pthread_mutex_lock(&engine->lock);
    for (size_t i = 0; i < engine->target_count; i++) {
        if (engine->targets[i].pid != pid)
            continue;
        struct engine_target gone = engine->targets[i];
        engine->targets[i] = engine->targets[--engine->target_count];
        engine->attached -= !gone.is_unattached;
        tell_watches(engine, false, &gone);
    }
    for (struct engine_capture *at = engine->captures; at; at = at->next)
        at->target_gone = at->target_gone || at->pid == pid;
    pthread_mutex_unlock(&engine->lock);
}

void fake_engine_stacks(struct engine *engine, uint32_t stacks, bool fresh) {
    pthread_mutex_lock(&engine->lock);
    engine->stacks = stacks;
    engine->fresh = fresh;
    pthread_mutex_unlock(&engine->lock);
}

void fake_engine_name_len(struct engine *engine, uint32_t name_len) {
    pthread_mutex_lock(&engine->lock);
    engine->name_len = name_len;
    pthread_mutex_unlock(&engine->lock);
}

void fake_engine_refuse_work(struct engine *engine, bool refuse) {
    pthread_mutex_lock(&engine->lock);
    engine->refuse_work = refuse;
    pthread_mutex_unlock(&engine->lock);
}

static uint32_t read_count(struct engine *engine, const uint32_t *counter) {
    pthread_mutex_lock(&engine->lock);
    uint32_t count = *counter;
    pthread_mutex_unlock(&engine->lock);
    return count;
}

uint32_t fake_engine_cancelled(struct engine *engine) {
    return read_count(engine, &engine->cancelled);
}

uint32_t fake_engine_unreleased(struct engine *engine) {
    return read_count(engine, &engine->unreleased);
}

void engine_counters(struct engine *engine, struct engine_counters *counters) {
    pthread_mutex_lock(&engine->lock);
    *counters = (struct engine_counters){.targets = engine->attached,
                                         .captures_total = engine->captures_total,
                                         .samples_total = 123456789012,
                                         .drops = {{"ring_full", 5}, {"contended", 0}},
                                         .drop_count = 2};
    for (struct engine_capture *at = engine->captures; at; at = at->next) {
        counters->captures_running += !at->is_over;
        counters->streams_running += !at->is_over && at->spec.window_ms;
    }
    pthread_mutex_unlock(&engine->lock);
}

static struct engine_target *list(struct engine *engine, bool all, size_t *count) {
    pthread_mutex_lock(&engine->lock);
    struct engine_target *copy = fake_copy(engine->targets, engine->target_count, all, count);
    pthread_mutex_unlock(&engine->lock);
    return copy;
}

struct engine_target *engine_targets(struct engine *engine, size_t *count) {
    return list(engine, false, count);
}

struct engine_target *engine_processes(struct engine *engine, size_t *count) {
    return list(engine, true, count);
}

void engine_name_advice(struct engine *engine, const struct engine_target *target,
                        char text[PROGRAM_ADVICE]) {
    snprintf(text, PROGRAM_ADVICE, "advice about %s", target->name);
}

void engine_counters_of_machine(struct engine *engine, struct host_counter *counters) {
    for (size_t i = 0; i < HOST_COUNTERS; i++)
        counters[i] = (struct host_counter){.event = (enum sonde_event_id)(SONDE_COUNTED + i)};
}

void engine_rights(struct engine *engine, struct host_right *rights) {
    for (int i = 0; i < RIGHT_KINDS; i++)
        rights[i] = (struct host_right){.name = "a right", .is_granted = true, .lost = ""};
    rights[RIGHT_BPF] = (struct host_right){
        .name = "refused", .lost = "a loss", .command = "a command", .reason = "a reason"};
}

sonde_err engine_find(struct engine *engine, const struct engine_selector *selector,
                      struct engine_target *target, struct sonde_diag *diag) {
    pthread_mutex_lock(&engine->lock);
    sonde_err err = fake_find(engine->targets, engine->target_count, selector, target, diag);
    pthread_mutex_unlock(&engine->lock);
    return err;
}

sonde_err engine_command_line(struct engine *engine, const struct engine_selector *selector,
                              struct sonde_buf *out, struct sonde_diag *diag) {
    static const char line[] = "demo\0--port\0"
                               "80\xff";
    struct engine_target target;
    sonde_err err = engine_find(engine, selector, &target, diag);
    if (!err)
        sonde_buf_append(out, line, sizeof line - 1);
    return err;
}

sonde_err engine_watch(struct engine *engine, engine_on_target *on_event, void *context,
                       struct engine_watch **out) {
    struct engine_watch *watch = calloc(1, sizeof *watch);
    if (!watch)
        return SONDE_OUT_OF_MEMORY;
    watch->on_event = on_event;
    watch->context = context;
    pthread_mutex_lock(&engine->lock);
    watch->next = engine->watches;
    engine->watches = watch;
    for (size_t i = 0; i < engine->target_count; i++)
        if (!engine->targets[i].is_unattached)
            on_event(context, true, &engine->targets[i]);
    on_event(context, true, NULL);
    pthread_mutex_unlock(&engine->lock);
    *out = watch;
    return SONDE_OK;
}

void engine_unwatch(struct engine *engine, struct engine_watch *watch) {
    pthread_mutex_lock(&engine->lock);
    for (struct engine_watch **at = &engine->watches; *at; at = &(*at)->next) {
        if (*at == watch) {
            *at = watch->next;
            break;
        }
    }
    pthread_mutex_unlock(&engine->lock);
    free(watch);
}

static uint32_t running_on(const struct engine *engine, pid_t pid) {
    uint32_t count = 0;
    for (struct engine_capture *at = engine->captures; at; at = at->next)
        count += !at->is_over && at->pid == pid;
    return count;
}

static sonde_err begin_capture(struct engine *engine, const struct engine_capture *made,
                               struct engine_capture **out, struct sonde_diag *diag) {
    struct engine_target target;
    sonde_err err = engine_find(engine, &made->spec.target, &target, diag);
    if (err)
        return err;
    struct engine_capture *capture = calloc(1, sizeof *capture);
    *capture = *made;
    capture->engine = engine;
    capture->pid = target.pid;
    capture->start_ns = capture->window_ns = capture->progress_ns = now_ns();
    pthread_mutex_lock(&engine->lock);
    if (running_on(engine, target.pid) >= ENGINE_CAPTURES_PER_TARGET) {
        pthread_mutex_unlock(&engine->lock);
        free(capture);
        return sonde_fail(diag, SONDE_TOO_MANY_CAPTURES,
                          "%d captures of %s are running; the limit is %d",
                          ENGINE_CAPTURES_PER_TARGET, target.name, ENGINE_CAPTURES_PER_TARGET);
    }
    capture->next = engine->captures;
    engine->captures = capture;
    engine->captures_total++;
    engine->unreleased++;
    *out = capture;
    pthread_mutex_unlock(&engine->lock);
    return SONDE_OK;
}

uint64_t fake_engine_result_by_ns(struct engine *engine) {
    return engine->result_by_ns;
}

sonde_err engine_capture_cpu(struct engine *engine, const struct engine_cpu_spec *spec,
                             const struct engine_capture_events *events, void *context,
                             struct engine_capture **out, struct sonde_diag *diag) {
    struct engine_capture made = {.spec = *spec, .events = *events, .context = context};
    engine->result_by_ns = spec->result_by_ns;
    fake_note_request(&spec->target, spec->source);
    return begin_capture(engine, &made, out, diag);
}

sonde_err engine_capture_allocs(struct engine *engine, const struct engine_allocs_spec *spec,
                                const struct engine_capture_events *events, void *context,
                                struct engine_capture **out, struct sonde_diag *diag) {
    struct engine_capture made = {.spec = {.target = spec->target,
                                           .duration_ms = spec->duration_ms,
                                           .progress_ms = spec->progress_ms},
                                  .is_of_allocs = true,
                                  .allocs = *spec,
                                  .events = *events,
                                  .context = context};
    return begin_capture(engine, &made, out, diag);
}

static void set(struct engine_capture *capture, bool *flag) {
    pthread_mutex_lock(&capture->engine->lock);
    *flag = true;
    pthread_mutex_unlock(&capture->engine->lock);
}

void engine_capture_finish(struct engine_capture *capture) {
    set(capture, &capture->finish);
}

void engine_capture_cancel(struct engine_capture *capture) {
    set(capture, &capture->cancel);
}

void engine_capture_release(struct engine_capture *capture) {
    struct engine *engine = capture->engine;
    pthread_mutex_lock(&engine->lock);
    engine->unreleased--;
    capture->is_released = true;
    pthread_mutex_unlock(&engine->lock);
}

sonde_err engine_symbolize(struct engine *engine, const struct engine_selector *selector,
                           const uint64_t *addresses, size_t count, bool return_addresses,
                           engine_on_symbols *on_answer, void *context, struct sonde_diag *diag) {
    struct engine_target target;
    sonde_err err = engine_find(engine, selector, &target, diag);
    if (err)
        return err;
    struct fake_symbols *job = fake_symbols_create(addresses, count, return_addresses);
    job->on_answer = on_answer;
    job->context = context;
    if (!engine_submit(engine, &job->work))
        job->work.run(&job->work);
    return SONDE_OK;
}
