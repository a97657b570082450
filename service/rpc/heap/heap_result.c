/* SPDX-License-Identifier: Apache-2.0
 *
 * HeapSnapshot and GetHeapDump: the engine provides the dump or its profile, a worker renders it,
 * and the loop sends it in chunks as fast as the client reads.
 *
 *     [base ──▶ wait delta_ms ──▶] dump or snapshot ──▶ render ──▶ start, chunks, status
 *
 * A difference fetches its base first. One reference keeps the call alive from the start until the
 * document takes another, or until the work is over. */
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/engine/heap/heap.h"
#include "service/rpc/answer/document.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/heap/heap_options.h"
#include "service/rpc/request/params.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DELTAS 64 /* each holds a profile while it waits */

struct delivery {
    struct rpc_document document;
    struct heap_options options;
    struct engine_selector target;
    char uuid[33]; /* of the target, if it is asked twice */
    struct loop_message message;
    struct loop_timer timer;
    struct engine_heap_result base, result;
    bool wants_base, is_delta;
    uint64_t samples; /* written by the worker, then read by the loop */
};

/* The work is over, with or without success. */
static void end_work(struct delivery *delivery) {
    struct rpc_call *call = delivery->document.call;
    rpc_document_complete(&delivery->document);
    rpc_call_drop(call);
}

/* ---- Drawing ---- */

static void draw(struct rpc_document *document) {
    struct delivery *delivery = container_of(document, struct delivery, document);
    document->err = heap_options_draw(&delivery->options, delivery->base.profile,
                                      delivery->result.profile, &document->spool.sink,
                                      &document->bytes, &delivery->samples, &document->diag);
    delivery->base.profile = delivery->result.profile = NULL;
}

static void describe(struct rpc_document *document, Sonde__V1__ResultStart *start) {
    const struct delivery *delivery = container_of(document, struct delivery, document);
    start->media_type = (char *)delivery->options.info->media_type;
    start->samples = delivery->samples;
    start->duration_ms = delivery->options.delta_ms;
}

static void start_drawing(struct delivery *delivery) {
    rpc_document_start(&delivery->document);
    rpc_call_drop(delivery->document.call);
}

/* ---- One dump after the other ---- */

static void on_result(void *context, sonde_err err, const struct sonde_diag *diag,
                      struct engine_heap_result *result) {
    struct delivery *delivery = context;
    delivery->document.err = err;
    if (diag)
        delivery->document.diag = *diag;
    if (result && delivery->wants_base)
        delivery->base = *result;
    else if (result)
        delivery->result = *result;
    loop_post(rpc_call_server(delivery->document.call)->loop, &delivery->message);
}

static sonde_err ask(struct delivery *delivery) {
    const struct heap_options *options = &delivery->options;
    struct engine_heap_query query = {
        .target = delivery->target,
        .name = delivery->wants_base ? options->base : options->name,
        .raw = !options->info->is_drawn,
        .keep_allocator_frames = options->keep_allocator_frames,
        .require_active = options->require_active,
        .older_than_ms = options->older_than_ms,
        .ended = options->ended,
    };
    struct engine *engine = rpc_call_server(delivery->document.call)->engine;
    return engine_heap_get(engine, &query, on_result, delivery, &delivery->document.diag);
}

/* A worker may answer, and write to the delivery, before this function has returned. */
static void ask_again(struct delivery *delivery) {
    sonde_err err = ask(delivery);
    if (!err)
        return;
    delivery->document.err = err;
    if (err == SONDE_TARGET_NOT_FOUND)
        delivery->document.err = sonde_fail(&delivery->document.diag, SONDE_TARGET_GONE,
                                            "the process ended before the end of the comparison");
    end_work(delivery);
}

static void on_time(struct loop_timer *timer) {
    ask_again(container_of(timer, struct delivery, timer));
}

static void has_base(struct delivery *delivery) {
    delivery->wants_base = false;
    if (delivery->options.delta_ms)
        loop_timer_set(rpc_call_server(delivery->document.call)->loop, &delivery->timer,
                       delivery->options.delta_ms);
    else
        ask_again(delivery);
}

static void has_all(struct delivery *delivery) {
    if (!delivery->result.profile) {
        delivery->document.bytes = delivery->result.text;
        delivery->result.text = (struct sonde_buf){0};
        end_work(delivery);
        return;
    }
    if (heap_options_compares(&delivery->options))
        delivery->document.err =
            heap_options_check_epochs(&delivery->options, delivery->base.epoch,
                                      delivery->result.epoch, &delivery->document.diag);
    if (delivery->document.err)
        end_work(delivery);
    else
        start_drawing(delivery);
}

static void has_result(struct loop_message *message) {
    struct delivery *delivery = container_of(message, struct delivery, message);
    if (delivery->document.err || rpc_call_finished(delivery->document.call))
        end_work(delivery);
    else if (delivery->wants_base)
        has_base(delivery);
    else
        has_all(delivery);
}

/* ---- Cancellation ---- */

static void stop_waiting(struct rpc_call *call, sonde_err err) {
    struct delivery *delivery = rpc_call_state(call);
    if (!delivery->timer.is_set)
        return;
    loop_timer_clear(rpc_call_server(call)->loop, &delivery->timer);
    delivery->document.err = err;
    end_work(delivery);
}

static void on_gone(struct rpc_call *call) {
    stop_waiting(call, SONDE_CANCELLED);
}

static void on_stop(struct rpc_call *call) {
    stop_waiting(call, SONDE_UNAVAILABLE);
}

static void release(struct rpc_call *call) {
    struct delivery *delivery = rpc_call_state(call);
    if (delivery->is_delta)
        rpc_call_server(call)->heap_deltas--;
    sonde_profile_destroy(delivery->base.profile);
    sonde_profile_destroy(delivery->result.profile);
    sonde_buf_finish(&delivery->result.text);
    rpc_document_finish(&delivery->document);
    free(delivery);
}

/* ---- Requests ---- */

/* Both requests must reach the same process, even if another one has its name by then. */
static sonde_err pin_target(struct delivery *delivery, struct sonde_diag *diag) {
    struct rpc_server *server = rpc_call_server(delivery->document.call);
    struct engine_target found;
    if (!heap_options_compares(&delivery->options))
        return SONDE_OK;
    if (delivery->options.ended) { /* uuids are never reused */
        delivery->wants_base = true;
        return SONDE_OK;
    }
    if (delivery->options.delta_ms && server->heap_deltas >= MAX_DELTAS)
        return sonde_fail(
            diag, SONDE_TOO_MANY_CAPTURES,
            "%d comparisons of a heap over time are running; the limit is %d: try again "
            "when one has ended",
            MAX_DELTAS, MAX_DELTAS);
    sonde_err err = engine_find(server->engine, &delivery->target, &found, diag);
    if (err)
        return err;
    memcpy(delivery->uuid, found.uuid, sizeof delivery->uuid);
    delivery->target = (struct engine_selector){.name = "", .uuid = delivery->uuid};
    delivery->wants_base = true;
    delivery->is_delta = delivery->options.delta_ms > 0;
    server->heap_deltas += delivery->is_delta;
    return SONDE_OK;
}

static void get(struct rpc_call *call, const struct heap_options *options,
                const struct engine_selector *target) {
    static const struct rpc_call_events events = {rpc_document_on_sent, on_gone, on_stop, release};
    static const struct rpc_document_events document_events = {.draw = draw, .describe = describe};
    struct sonde_diag diag = {0};
    struct delivery *delivery = calloc(1, sizeof *delivery);
    if (!delivery) {
        rpc_finish(call, SONDE_OUT_OF_MEMORY, NULL);
        return;
    }
    *delivery = (struct delivery){.options = *options,
                                  .target = *target,
                                  .message = {.run = has_result},
                                  .timer = {.run = on_time}};
    rpc_document_init(&delivery->document, call, &document_events);
    rpc_call_set(call, &events, delivery);
    rpc_call_note(call, " target=%s pid=%d", rpc_text(rpc_call_arena(call), target->name),
                  (int)target->pid);
    rpc_call_take(call); /* dropped in end_work */
    sonde_err err = pin_target(delivery, &diag);
    if (err)
        rpc_finish(call, err, &diag);
    else if ((err = ask(delivery)))
        rpc_finish(call, err, &delivery->document.diag);
    if (err)
        rpc_call_drop(call);
}

void rpc_heap_snapshot(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__HeapSnapshotRequest *request = (const void *)message;
    struct engine_selector target;
    struct heap_options options;
    struct sonde_diag diag = {0};
    sonde_err err = rpc_selector(request->target, &target, &diag);
    if (!err)
        err = heap_options_of_snapshot(request, &options, &diag);
    if (err)
        rpc_finish(call, err, &diag);
    else
        get(call, &options, &target);
}

void rpc_get_heap_dump(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__GetHeapDumpRequest *request = (const void *)message;
    struct engine_selector target;
    struct heap_options options;
    struct sonde_diag diag = {0};
    sonde_err err = rpc_selector(request->target, &target, &diag);
    if (!err)
        err = heap_options_of_dump(request, &options, &diag);
    if (err)
        rpc_finish(call, err, &diag);
    else
        get(call, &options, &target);
}
