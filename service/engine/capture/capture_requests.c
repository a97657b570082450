/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures as callers see them: from any thread, refusals at once, the rest by message. */
#include "service/engine/capture/capture.h"
#include "service/engine/find_target.h"

#include <stdlib.h>

#define MAX_FREQUENCY 10000u
#define MAX_MS        3600000u

static sonde_err check_spec(const struct engine_cpu_spec *spec, struct sonde_diag *diag) {
    if (spec->frequency_hz < 1 || spec->frequency_hz > MAX_FREQUENCY)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "frequency %u: must be 1 to %u Hz",
                          spec->frequency_hz, MAX_FREQUENCY);
    if (spec->duration_ms > MAX_MS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "duration %u ms: must be at most %u",
                          spec->duration_ms, MAX_MS);
    if (spec->window_ms > MAX_MS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "window %u ms: must be at most %u",
                          spec->window_ms, MAX_MS);
    return SONDE_OK;
}

/* Under targets_lock. */
static sonde_err reserve(struct engine *engine, const struct engine_selector *selector,
                         struct target **target, struct sonde_diag *diag) {
    sonde_err err = find_target(engine, selector, target, diag);
    if (err)
        return err;
    struct engine_target *info = &(*target)->info;
    if (info->captures_running >= ENGINE_CAPTURES_PER_TARGET)
        return sonde_fail(diag, SONDE_TOO_MANY_CAPTURES,
                          "%u captures of %s are running; the limit is %u", info->captures_running,
                          info->name, ENGINE_CAPTURES_PER_TARGET);
    info->captures_running++;
    target_retain(*target);
    return SONDE_OK;
}

sonde_err captures_reserve(struct engine *engine, const struct engine_selector *selector,
                           struct target **target, struct sonde_diag *diag) {
    if (atomic_load(&engine->is_ending))
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the service is shutting down");
    lock_take(&engine->targets_lock);
    sonde_err err = reserve(engine, selector, target, diag);
    lock_drop(&engine->targets_lock);
    if (err)
        return err;
    atomic_fetch_add(&engine->captures_running, 1);
    atomic_fetch_add(&engine->captures_total, 1);
    return SONDE_OK;
}

void captures_give_back(struct target *target) {
    lock_take(&target->engine->targets_lock);
    target->info.captures_running--;
    lock_drop(&target->engine->targets_lock);
    atomic_fetch_sub(&target->engine->captures_running, 1);
}

sonde_err begin_capture(struct engine *engine, const struct engine_cpu_spec *spec,
                        const struct engine_capture_events *events, void *context,
                        struct engine_capture **created, struct sonde_diag *diag) {
    struct target *target;
    *created = NULL;
    sonde_err err = check_spec(spec, diag);
    if (err)
        return err;
    err = captures_reserve(engine, &spec->target, &target, diag);
    if (err)
        return err;
    struct engine_capture *capture = capture_create(target, spec, events, context);
    if (capture && !jobs_prepare_end(capture)) {
        capture_release(capture);
        capture_release(capture);
        capture = NULL;
    }
    if (capture && spec->window_ms)
        atomic_fetch_add(&engine->streams_running, 1);
    if (!capture) {
        captures_give_back(target);
        err = sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    }
    target_release(target);
    *created = capture;
    return err;
}

sonde_err engine_capture_cpu(struct engine *engine, const struct engine_cpu_spec *spec,
                             const struct engine_capture_events *events, void *context,
                             struct engine_capture **capture, struct sonde_diag *diag) {
    sonde_err err = begin_capture(engine, spec, events, context, capture, diag);
    if (!err)
        capture_launch(*capture);
    return err;
}

static void on_finish(struct engine *engine, struct message *message) {
    struct engine_capture *capture =
        (struct engine_capture *)((char *)message - offsetof(struct engine_capture, finish));
    capture->target->wake_ns = 1;
    capture_release(capture);
}

void engine_capture_finish(struct engine_capture *capture) {
    if (atomic_exchange(&capture->finish_asked, true))
        return;
    capture_retain(capture);
    capture->finish.run = on_finish; /* for a window it wakes the target, too */
    engine_post(capture->engine, &capture->finish);
}

static void on_cancel(struct engine *engine, struct message *message) {
    struct engine_capture *capture =
        (struct engine_capture *)((char *)message - offsetof(struct engine_capture, cancel));
    if (capture->is_window)
        capture->target->wake_ns = 1;
    else
        capture_fail(capture, SONDE_CANCELLED, "the capture was cancelled");
    capture_release(capture);
}

void engine_capture_cancel(struct engine_capture *capture) {
    if (atomic_exchange(&capture->cancel_asked, true))
        return;
    capture_retain(capture);
    capture->cancel.run = on_cancel;
    engine_post(capture->engine, &capture->cancel);
}

void engine_capture_release(struct engine_capture *capture) {
    capture_release(capture);
}
