/* SPDX-License-Identifier: Apache-2.0
 *
 * StartCpu/StopCpu: one capture per target that nobody waits for, with a lease. Its result is kept
 * on the target until the next start. Whoever stops it while the result is being built waits for
 * it; every one of them gets a copy. */
#include "service/engine/capture.h"
#include "service/engine/find.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEFAULT_LEASE_MS 3600000u

/* One answer to one stop. */
struct delivery {
    struct job job;
    struct target *target;
    struct engine_capture_events events;
    void *context;
};

static void keep_result(void *context, struct sonde_profile *profile,
                        const struct engine_facts *facts) {
    struct target *target = context;
    struct session *session = &target->session;
    lock_take(&target->engine->session_lock);
    struct sonde_profile *old = session->result;
    session->result = profile;
    session->facts = *facts;
    memset(session->clock, 0, sizeof session->clock);
    memcpy(session->clock, facts->clock, strnlen(facts->clock, sizeof session->clock - 1));
    memset(session->budget_note, 0, sizeof session->budget_note);
    memcpy(session->budget_note, facts->budget_note,
           strnlen(facts->budget_note, sizeof session->budget_note - 1));
    lock_drop(&target->engine->session_lock);
    sonde_profile_destroy(old);
}

struct texts {
    char clock[24], budget_note[192];
};

/* The last result once more, or an empty profile when there never was one. */
static sonde_err copy_result(struct target *target, struct sonde_profile **profile,
                             struct engine_facts *facts, struct texts *texts,
                             struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    lock_take(&target->engine->session_lock);
    *facts = target->session.facts;
    memcpy(texts->clock, target->session.clock, sizeof texts->clock);
    memcpy(texts->budget_note, target->session.budget_note, sizeof texts->budget_note);
    if (target->session.result) {
        err = report_dup(target->session.result, profile, diag);
    } else {
        *profile = report_empty(ENGINE_CPU);
        facts->start_unix_ns = facts->end_unix_ns = now_unix_ns();
    }
    lock_drop(&target->engine->session_lock);
    facts->clock = texts->clock;
    facts->budget_note = texts->budget_note;
    if (!err && !*profile)
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    return err;
}

static void deliver(struct target *target, const struct engine_capture_events *events,
                    void *context, sonde_err err, const struct sonde_diag *diag) {
    struct sonde_profile *profile = NULL;
    struct engine_facts facts;
    struct texts texts;
    struct sonde_diag own = {0};
    if (err == SONDE_OK) {
        err = copy_result(target, &profile, &facts, &texts, &own);
        diag = err ? &own : NULL;
    }
    if (err == SONDE_OK)
        events->on_profile(context, profile, &facts);
    events->on_end(context, err, diag);
}

static void on_session_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct target *target = context;
    struct session *session = &target->session;
    lock_take(&target->engine->session_lock);
    struct session_waiter *waiter = session->waiters;
    struct engine_capture *capture = session->capture;
    session->waiters = NULL;
    session->capture = NULL;
    session->is_running = false;
    lock_drop(&target->engine->session_lock);
    while (waiter) {
        struct session_waiter *next = waiter->next;
        deliver(target, &waiter->events, waiter->context, err, diag);
        free(waiter);
        waiter = next;
    }
    engine_capture_release(capture);
    target_release(target);
}

static sonde_err refuse_second(const struct target *target, struct sonde_diag *diag) {
    const struct engine_session_info *info = &target->session.info;
    char when[32] = "";
    time_t seconds = (time_t)(info->start_unix_ns / 1000000000ll);
    struct tm utc;
    if (gmtime_r(&seconds, &utc))
        strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return sonde_fail(diag, SONDE_SESSION_BUSY,
                      "a CPU session of %s runs since %s%s%s; stop it before you start another",
                      target->info.name, when, info->owner[0] ? ", started by " : "", info->owner);
}

/* Under session_lock. The capture is launched when this succeeds. */
static sonde_err start(struct target *target, const struct engine_cpu_spec *spec, const char *owner,
                       struct sonde_diag *diag) {
    static const struct engine_capture_events events = {.on_profile = keep_result,
                                                        .on_end = on_session_end};
    struct session *session = &target->session;
    if (session->is_running)
        return refuse_second(target, diag);
    struct engine_cpu_spec exact = *spec;
    exact.target = (struct engine_selector){.uuid = target->info.uuid};
    struct engine_capture *capture;
    sonde_err err = begin_capture(target->engine, &exact, &events, target, &capture, diag);
    if (err)
        return err;
    target_retain(target); /* until on_session_end */
    sonde_profile_destroy(session->result);
    session->result = NULL;
    session->facts = (struct engine_facts){0};
    session->is_running = true;
    session->capture = capture;
    memset(&session->info, 0, sizeof session->info);
    session->info.start_unix_ns = now_unix_ns();
    session->info.lease_until_unix_ns =
        session->info.start_unix_ns + (int64_t)spec->duration_ms * 1000000;
    if (owner)
        memcpy(session->info.owner, owner, strnlen(owner, sizeof session->info.owner - 1));
    capture_launch(capture);
    return SONDE_OK;
}

static sonde_err find_retained(struct engine *engine, const struct engine_selector *selector,
                               struct target **target, struct sonde_diag *diag) {
    lock_take(&engine->targets_lock);
    sonde_err err = find_target(engine, selector, target, diag);
    if (!err)
        target_retain(*target);
    lock_drop(&engine->targets_lock);
    return err;
}

sonde_err engine_session_start(struct engine *engine, const struct engine_cpu_spec *spec,
                               uint32_t lease_ms, const char *owner,
                               struct engine_session_info *info, struct sonde_diag *diag) {
    struct target *target;
    struct engine_cpu_spec whole = *spec;
    whole.duration_ms = lease_ms ? lease_ms : DEFAULT_LEASE_MS;
    whole.window_ms = whole.progress_ms = 0;
    sonde_err err = find_retained(engine, &spec->target, &target, diag);
    if (err)
        return err;
    lock_take(&engine->session_lock);
    err = start(target, &whole, owner, diag);
    if (!err && info)
        *info = target->session.info;
    lock_drop(&engine->session_lock);
    target_release(target);
    return err;
}

static void perform_delivery(struct job *base) {
    struct delivery *delivery = (struct delivery *)base;
    deliver(delivery->target, &delivery->events, delivery->context, SONDE_OK, NULL);
}

static void on_delivered(struct engine *engine, struct job *base) {
    struct delivery *delivery = (struct delivery *)base;
    target_release(delivery->target);
    free(delivery);
}

/* No session runs: the answer is at hand. */
static sonde_err deliver_last(struct target *target, const struct engine_capture_events *events,
                              void *context, struct sonde_diag *diag) {
    struct delivery *delivery = calloc(1, sizeof *delivery);
    if (!delivery)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    delivery->job.perform = perform_delivery;
    delivery->job.complete = on_delivered;
    delivery->target = target_retain(target);
    delivery->events = *events;
    delivery->context = context;
    engine_start_job(target->engine, target->engine->reporters, &delivery->job);
    return SONDE_OK;
}

/* Under session_lock. */
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

sonde_err engine_session_stop(struct engine *engine, const struct engine_selector *selector,
                              const struct engine_capture_events *events, void *context,
                              struct sonde_diag *diag) {
    struct target *target;
    if (atomic_load(&engine->is_ending))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    sonde_err err = find_retained(engine, selector, &target, diag);
    if (err)
        return err;
    lock_take(&engine->session_lock);
    if (target->session.is_running)
        err = await_result(&target->session, events, context, diag);
    else
        err = deliver_last(target, events, context, diag);
    lock_drop(&engine->session_lock);
    target_release(target);
    return err;
}
