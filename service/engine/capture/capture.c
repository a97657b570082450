/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/capture/capture.h"
#include "service/engine/capture/clock.h"

void capture_init(struct engine_capture *capture, const struct capture_ops *ops,
                  struct target *target, const struct engine_capture_events *events,
                  void *context) {
    capture->ops = ops;
    capture->refs = 2; /* the caller's handle, and the place on the target */
    capture->engine = target->engine;
    capture->target = target_retain(target);
    capture->events = *events;
    capture->context = context;
}

void capture_retain(struct engine_capture *capture) {
    atomic_fetch_add_explicit(&capture->refs, 1, memory_order_relaxed);
}

void capture_release(struct engine_capture *capture) {
    if (!capture || atomic_fetch_sub_explicit(&capture->refs, 1, memory_order_acq_rel) != 1)
        return;
    struct target *target = capture->target;
    capture->ops->destroy(capture);
    target_release(target);
}

static void on_start(struct engine *engine, struct message *message) {
    struct engine_capture *capture = container_of(message, struct engine_capture, start);
    struct target *target = capture->target;
    capture->ops->enlist(capture);
    target_wake_now(target);
    if (target->is_attached && !engine->is_shutting_down) {
        capture->ops->begin(capture);
        return;
    }
    target_relist(target);
    if (engine->is_shutting_down)
        capture->ops->fail(capture, SONDE_UNAVAILABLE, "the service is shutting down");
    else
        capture->ops->fail(capture, SONDE_TARGET_GONE, "the target ended before the capture began");
}

void capture_launch(struct engine_capture *capture) {
    capture->start.run = on_start;
    engine_post(capture->engine, &capture->start);
}

sonde_err capture_reserve(struct target *target, struct sonde_diag *diag) {
    struct engine *engine = target->engine;
    struct engine_target *info = &target->info;
    sonde_err err = SONDE_OK;
    lock_take(&engine->targets_lock);
    if (info->captures_running >= ENGINE_CAPTURES_PER_TARGET)
        err = sonde_fail(diag, SONDE_TOO_MANY_CAPTURES,
                         "%u captures of %s are running; the limit is %u", info->captures_running,
                         info->name, ENGINE_CAPTURES_PER_TARGET);
    else
        info->captures_running++;
    lock_drop(&engine->targets_lock);
    if (err)
        return err;
    atomic_fetch_add(&engine->captures_running, 1);
    atomic_fetch_add(&engine->captures_total, 1);
    return SONDE_OK;
}

void capture_unreserve(struct target *target) {
    lock_take(&target->engine->targets_lock);
    target->info.captures_running--;
    lock_drop(&target->engine->targets_lock);
    atomic_fetch_sub(&target->engine->captures_running, 1);
}

/* The capture's own tick finds the flag. */
static void on_finish(struct engine *engine, struct message *message) {
    struct engine_capture *capture = container_of(message, struct engine_capture, finish);
    target_wake_now(capture->target);
    capture_release(capture);
}

void engine_capture_finish(struct engine_capture *capture) {
    if (atomic_exchange(&capture->is_finish_requested, true))
        return;
    capture_retain(capture);
    capture->finish.run = on_finish;
    engine_post(capture->engine, &capture->finish);
}

static void on_cancel(struct engine *engine, struct message *message) {
    struct engine_capture *capture = container_of(message, struct engine_capture, cancel);
    capture->ops->fail(capture, SONDE_CANCELLED, "the capture was cancelled");
    target_wake_now(capture->target);
    capture_release(capture);
}

void engine_capture_cancel(struct engine_capture *capture) {
    if (atomic_exchange(&capture->is_cancel_requested, true))
        return;
    capture_retain(capture);
    capture->cancel.run = on_cancel;
    engine_post(capture->engine, &capture->cancel);
}

/* The message can be posted again from here on. */
static void on_cut(struct engine *engine, struct message *message) {
    struct engine_capture *capture = container_of(message, struct engine_capture, cut);
    atomic_store(&capture->is_cut_posted, false);
    capture->is_cut_due = true;
    target_wake_now(capture->target);
    capture_release(capture);
}

void engine_capture_cut(struct engine_capture *capture) {
    if (atomic_exchange(&capture->is_cut_posted, true))
        return;
    capture_retain(capture);
    capture->cut.run = on_cut;
    engine_post(capture->engine, &capture->cut);
}

void engine_capture_release(struct engine_capture *capture) {
    capture_release(capture);
}
