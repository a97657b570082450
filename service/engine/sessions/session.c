/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions: StartCpu and StopCpu, StartAllocs and StopAllocs. A session is a capture with a lease
 * that no call waits for; a target has at most one of each kind. The target keeps the result until
 * the next start. A stop that arrives while the result is being built waits for it, and every stop
 * gets a copy. */
#include "service/engine/sessions/session.h"
#include "api/text/time_text.h"
#include "service/engine/capture/cpu_capture.h"
#include "service/engine/memory_report/alloc_report.h"
#include "service/engine/targets/find_target.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_LEASE_MS 3600000u

/* The answer to one stop. */
struct delivery {
    struct job job;
    struct session *session;
    struct engine_capture_events events;
    void *context;
};

static void save_result(void *context, struct sonde_profile *profile,
                        const struct engine_metadata *metadata) {
    struct session *session = context;
    struct engine *engine = session->target->engine;
    lock_take(&engine->session_lock);
    struct sonde_profile *old = session->result;
    session->result = profile;
    session->metadata = *metadata;
    lock_drop(&engine->session_lock);
    sonde_profile_destroy(old);
}

/* Copies the last result, or returns an empty profile if there never was one. */
static sonde_err copy_result(struct session *session, struct sonde_profile **profile,
                             struct engine_metadata *metadata, struct sonde_diag *diag) {
    struct engine *engine = session->target->engine;
    sonde_err err = SONDE_OK;
    lock_take(&engine->session_lock);
    *metadata = session->metadata;
    if (session->result) {
        err = report_dup(session->result, profile, diag);
    } else {
        *profile = session->kind == SESSION_CPU ? report_empty(SONDE_ON_CPU) : alloc_report_empty();
        metadata->start_unix_ns = metadata->end_unix_ns = now_unix_ns();
    }
    lock_drop(&engine->session_lock);
    if (!err && !*profile)
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    return err;
}

static void deliver(struct session *session, const struct engine_capture_events *events,
                    void *context, sonde_err err, const struct sonde_diag *diag) {
    struct sonde_profile *profile = NULL;
    struct engine_metadata metadata;
    struct sonde_diag own = {0};
    if (err == SONDE_OK) {
        err = copy_result(session, &profile, &metadata, &own);
        diag = err ? &own : NULL;
    }
    if (err == SONDE_OK)
        events->on_profile(context, profile, &metadata);
    events->on_end(context, err, diag);
}

/* Answers the start, unless that has been done. */
static void announce(struct session *session, sonde_err err, const struct sonde_diag *diag) {
    struct engine *engine = session->target->engine;
    lock_take(&engine->session_lock);
    engine_on_session *on_started = session->on_started;
    void *context = session->started_context;
    struct engine_session_info info = session->info;
    session->on_started = NULL;
    lock_drop(&engine->session_lock);
    if (on_started)
        on_started(context, err, diag, err ? NULL : &info);
}

static void on_session_begin(void *context) {
    announce(context, SONDE_OK, NULL);
}

static void on_session_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct session *session = context;
    struct target *target = session->target;
    lock_take(&target->engine->session_lock);
    struct session_waiter *waiter = session->waiters;
    struct engine_capture *capture = session->capture;
    session->waiters = NULL;
    session->capture = NULL;
    session->is_running = false;
    lock_drop(&target->engine->session_lock);
    announce(session, err, diag);
    while (waiter) {
        struct session_waiter *next = waiter->next;
        deliver(session, &waiter->events, waiter->context, err, diag);
        free(waiter);
        waiter = next;
    }
    engine_capture_release(capture);
    target_release(target);
}

static sonde_err refuse_second(const struct session *session, struct sonde_diag *diag) {
    const struct engine_session_info *info = &session->info;
    bool is_cpu = session->kind == SESSION_CPU;
    char since[SONDE_TIME_BYTES], until[SONDE_TIME_BYTES];
    return sonde_fail(diag, SONDE_SESSION_BUSY,
                      "%s of %s has been running since %s%s%s, and ends at %s unless it is stopped "
                      "(%s) earlier",
                      is_cpu ? "a CPU session" : "an allocation session",
                      session->target->info.name, sonde_time_utc(info->start_unix_ns, since),
                      info->owner[0] ? ", started by " : "", info->owner,
                      sonde_time_utc(info->lease_until_unix_ns, until),
                      is_cpu ? "/profile_stop" : "/allocs_profile_stop");
}

/* With session_lock held. */
static sonde_err start(struct session *session, const struct session *twin,
                       const struct session_plan *plan, struct sonde_diag *diag) {
    static const struct engine_capture_events events = {
        .on_profile = save_result, .on_end = on_session_end, .on_begin = on_session_begin};
    struct engine_capture *capture;
    if (session->is_running || (twin && twin->is_running))
        return refuse_second(session->is_running ? session : twin, diag);
    sonde_err err = plan->begin(session->target, plan, &events, session, &capture, diag);
    if (err)
        return err;
    target_retain(session->target); /* until on_session_end */
    sonde_profile_destroy(session->result);
    session->result = NULL;
    session->metadata = (struct engine_metadata){0};
    session->is_running = true;
    session->capture = capture;
    session->on_started = plan->on_started;
    session->started_context = plan->context;
    memset(&session->info, 0, sizeof session->info);
    session->info.start_unix_ns = now_unix_ns();
    session->info.lease_until_unix_ns =
        session->info.start_unix_ns + (int64_t)plan->lease_ms * 1000000;
    if (plan->owner)
        memcpy(session->info.owner, plan->owner,
               strnlen(plan->owner, sizeof session->info.owner - 1));
    capture_launch(capture);
    return SONDE_OK;
}

sonde_err session_start(struct target *target, const struct session_plan *plan,
                        struct engine_session_info *info, struct sonde_diag *diag) {
    struct engine *engine = target->engine;
    struct target *twin = plan->kind == SESSION_CPU ? find_twin(target) : NULL;
    lock_take(&engine->session_lock);
    sonde_err err =
        start(&target->sessions[plan->kind], twin ? &twin->sessions[plan->kind] : NULL, plan, diag);
    if (!err && info)
        *info = target->sessions[plan->kind].info;
    lock_drop(&engine->session_lock);
    target_release(twin);
    target_release(target);
    return err;
}

struct cpu_session {
    struct engine_cpu_spec spec;
    const char *note;
};

static sonde_err begin_cpu(struct target *target, const struct session_plan *plan,
                           const struct engine_capture_events *events, void *context,
                           struct engine_capture **capture, struct sonde_diag *diag) {
    const struct cpu_session *session = plan->spec;
    struct engine_cpu_spec spec = session->spec;
    spec.duration_ms = plan->lease_ms;
    spec.window_ms = spec.progress_ms = 0;
    spec.has_timeline = true; /* the result is saved */
    return cpu_capture_request(target, &spec, session->note, events, context, capture, diag);
}

sonde_err engine_session_start(struct engine *engine, const struct engine_cpu_spec *spec,
                               uint32_t lease_ms, const char *owner,
                               struct engine_session_info *info, struct sonde_diag *diag) {
    struct cpu_session session = {.spec = *spec};
    struct session_plan plan = {.kind = SESSION_CPU,
                                .spec = &session,
                                .lease_ms = lease_ms ? lease_ms : DEFAULT_LEASE_MS,
                                .owner = owner,
                                .begin = begin_cpu};
    struct target *target;
    if (atomic_load(&engine->is_ending))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    sonde_err err = find_for_cpu(engine, spec, &target, &session.note, diag);
    return err ? err : session_start(target, &plan, info, diag);
}

static void perform_delivery(struct job *base) {
    struct delivery *delivery = container_of(base, struct delivery, job);
    deliver(delivery->session, &delivery->events, delivery->context, SONDE_OK, NULL);
}

static void on_delivered(struct engine *engine, struct job *base) {
    struct delivery *delivery = container_of(base, struct delivery, job);
    target_release(delivery->session->target);
    free(delivery);
}

/* No session is running, so the last result is final. */
static sonde_err deliver_last(struct session *session, const struct engine_capture_events *events,
                              void *context, struct sonde_diag *diag) {
    struct engine *engine = session->target->engine;
    struct delivery *delivery = calloc(1, sizeof *delivery);
    if (!delivery)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    delivery->job.perform = perform_delivery;
    delivery->job.complete = on_delivered;
    delivery->session = session;
    target_retain(session->target);
    delivery->events = *events;
    delivery->context = context;
    target_start_job(session->target, engine->reporters, &delivery->job);
    return SONDE_OK;
}

/* With session_lock held. */
static sonde_err await_result(struct session *session, const struct engine_capture_events *events,
                              void *context, struct sonde_diag *diag) {
    struct session_waiter *waiter = calloc(1, sizeof *waiter);
    if (!waiter)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    waiter->events = *events;
    waiter->context = context;
    waiter->next = session->waiters;
    session->waiters = waiter;
    engine_capture_finish(session->capture);
    return SONDE_OK;
}

sonde_err session_stop(struct target *target, enum session_kind kind,
                       const struct engine_capture_events *events, void *context,
                       struct sonde_diag *diag) {
    struct engine *engine = target->engine;
    struct session *session = &target->sessions[kind];
    sonde_err err;
    lock_take(&engine->session_lock);
    if (session->is_running)
        err = await_result(session, events, context, diag);
    else
        err = deliver_last(session, events, context, diag);
    lock_drop(&engine->session_lock);
    target_release(target);
    return err;
}

sonde_err engine_session_stop(struct engine *engine, const struct engine_selector *selector,
                              const struct engine_capture_events *events, void *context,
                              struct sonde_diag *diag) {
    struct target *target;
    if (atomic_load(&engine->is_ending))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    sonde_err err = find_cpu_session(engine, selector, &target, diag);
    return err ? err : session_stop(target, SESSION_CPU, events, context, diag);
}
