/* SPDX-License-Identifier: Apache-2.0
 *
 * HeapSnapshot and GetHeapDump: the engine brings the dump or its profile, a worker draws it, and
 * it leaves in chunks as fast as the reader takes them. */
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/engine/heap.h"
#include "service/rpc/handlers.h"
#include "service/rpc/inside.h"
#include "service/rpc/params.h"
#include "service/rpc/text.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK_BYTES      (128u << 10)
#define MAX_RESULT_BYTES (1u << 30)
#define MAX_TITLE        200

struct wish {
    const struct sonde_format_info *info;
    const char *title, *sample_type; /* NULL = the profile's own; in the call's message */
    bool merge_threads, raw, all_one;
};

struct delivery {
    struct rpc_call *call;
    struct wish wish;
    struct loop_message message;
    struct engine_heap_result result;
    sonde_err err;
    struct sonde_diag diag;
    struct rpc_job job;
    struct sonde_buf drawn;
    bool is_drawn, start_was_sent;
    uint64_t samples;
    size_t sent;
};

static void send_start(struct delivery *delivery) {
    Sonde__V1__ResultStart start = SONDE__V1__RESULT_START__INIT;
    Sonde__V1__CaptureEvent event = SONDE__V1__CAPTURE_EVENT__INIT;
    start.media_type = (char *)delivery->wish.info->media_type;
    start.size_bytes = delivery->drawn.len;
    start.samples = delivery->samples;
    event.event_case = SONDE__V1__CAPTURE_EVENT__EVENT_RESULT;
    event.result = &start;
    delivery->start_was_sent = true;
    rpc_call_note(delivery->call, " bytes=%zu", delivery->drawn.len);
    rpc_send(delivery->call, &event.base);
}

static void send_chunk(struct delivery *delivery) {
    Sonde__V1__CaptureEvent event = SONDE__V1__CAPTURE_EVENT__INIT;
    size_t left = delivery->drawn.len - delivery->sent;
    event.event_case = SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK;
    event.chunk.data = (uint8_t *)delivery->drawn.data + delivery->sent;
    event.chunk.len = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    delivery->sent += event.chunk.len;
    rpc_send(delivery->call, &event.base);
}

static void send_next(struct rpc_call *call) {
    struct delivery *delivery = rpc_call_state(call);
    if (rpc_call_sending(call) || rpc_call_finished(call) || !delivery->is_drawn)
        return;
    if (delivery->err)
        rpc_finish(call, delivery->err, &delivery->diag);
    else if (!delivery->start_was_sent)
        send_start(delivery);
    else if (delivery->sent < delivery->drawn.len)
        send_chunk(delivery);
    else
        rpc_finish(call, SONDE_OK, NULL);
}

/* ---- Drawing ---- */

static void draw(struct rpc_job *job) {
    struct delivery *delivery = loop_owner(job, struct delivery, job);
    const struct wish *wish = &delivery->wish;
    struct sonde_profile *profile = delivery->result.profile;
    struct sonde_draw_options options = sonde_draw_defaults(profile);
    if (wish->sample_type)
        options.title = options.type = wish->sample_type;
    if (wish->title)
        options.title = wish->title;
    options.merge_threads = wish->merge_threads;
    options.gzip_level = wish->raw ? -1 : 0;
    options.all_one = wish->all_one;
    delivery->drawn.limit = MAX_RESULT_BYTES;
    delivery->samples = sonde_profile_sample_count(profile);
    delivery->err =
        sonde_draw(profile, wish->info->format, &options, &delivery->drawn, &delivery->diag);
    sonde_profile_destroy(profile);
    delivery->result.profile = NULL;
}

static void on_drawn(struct rpc_job *job) {
    struct delivery *delivery = loop_owner(job, struct delivery, job);
    delivery->is_drawn = true;
    send_next(delivery->call);
    rpc_call_drop(delivery->call);
}

static void start_drawing(struct delivery *delivery) {
    delivery->job.call = delivery->call;
    delivery->job.run = draw;
    delivery->job.on_done = on_drawn;
    rpc_call_take(delivery->call);
    rpc_job_start(&delivery->job);
}

/* ---- From the engine to the loop ---- */

static void has_result(struct loop_message *message) {
    struct delivery *delivery = loop_owner(message, struct delivery, message);
    struct rpc_call *call = delivery->call;
    if (!delivery->err && delivery->result.profile && !rpc_call_finished(call)) {
        start_drawing(delivery);
    } else {
        delivery->drawn = delivery->result.text;
        delivery->result.text = (struct sonde_buf){0};
        delivery->is_drawn = true;
        send_next(call);
    }
    rpc_call_drop(call);
}

static void on_result(void *context, sonde_err err, const struct sonde_diag *diag,
                      struct engine_heap_result *result) {
    struct delivery *delivery = context;
    delivery->err = err;
    if (diag)
        delivery->diag = *diag;
    if (result)
        delivery->result = *result;
    loop_post(rpc_call_server(delivery->call)->loop, &delivery->message);
}

static void release(struct rpc_call *call) {
    struct delivery *delivery = rpc_call_state(call);
    sonde_profile_destroy(delivery->result.profile);
    sonde_buf_finish(&delivery->result.text);
    sonde_buf_finish(&delivery->drawn);
    free(delivery);
}

/* ---- Requests ---- */

static sonde_err read_wish(const Sonde__V1__Rendering *rendering, const char *sample_type,
                           struct wish *wish, struct sonde_diag *diag) {
    enum sonde_format format = SONDE_FORMAT_JEMALLOC;
    if (rendering && rendering->format != SONDE__V1__FORMAT__FORMAT_UNSPECIFIED)
        format = (enum sonde_format)rendering->format;
    wish->info = sonde_format_info(format);
    if (!wish->info || !(wish->info->offered & SONDE_OF_HEAP))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "rendering.format: \"%d\" is no format that heap profiles have here",
                          (int)format);
    wish->sample_type = *sample_type ? sample_type : NULL;
    if (!rendering)
        return SONDE_OK;
    if (strlen(rendering->title) > MAX_TITLE)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "rendering.title: %zu bytes are too long; at most %d",
                          strlen(rendering->title), MAX_TITLE);
    wish->title = *rendering->title ? rendering->title : NULL;
    wish->merge_threads = rendering->merge_threads;
    wish->raw = rendering->raw;
    return SONDE_OK;
}

static void get(struct rpc_call *call, const struct wish *wish, struct engine_heap_query *query) {
    static const struct rpc_call_events events = {send_next, NULL, NULL, release};
    struct sonde_diag diag = {0};
    struct delivery *delivery = calloc(1, sizeof *delivery);
    if (!delivery) {
        rpc_finish(call, SONDE_OUT_OF_MEMORY, NULL);
        return;
    }
    delivery->call = call;
    delivery->wish = *wish;
    delivery->message.run = has_result;
    rpc_call_set(call, &events, delivery);
    rpc_call_note(call, " target=%s pid=%d", rpc_text(rpc_call_arena(call), query->target.name),
                  (int)query->target.pid);
    query->raw = !wish->info->is_drawn;
    rpc_call_take(call); /* until the result */
    sonde_err err =
        engine_heap_get(rpc_call_server(call)->engine, query, on_result, delivery, &diag);
    if (!err)
        return;
    rpc_finish(call, err, &diag);
    rpc_call_drop(call);
}

void rpc_heap_snapshot(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__HeapSnapshotRequest *request = (const void *)message;
    struct engine_heap_query query = {.require_active = request->require_active};
    struct wish wish = {.all_one = request->all_one};
    struct sonde_diag diag = {0};
    sonde_err err = rpc_selector(request->target, &query.target, &diag);
    if (!err)
        err = read_wish(request->rendering, request->sample_type, &wish, &diag);
    if (err)
        rpc_finish(call, err, &diag);
    else
        get(call, &wish, &query);
}

void rpc_get_heap_dump(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__GetHeapDumpRequest *request = (const void *)message;
    struct engine_heap_query query = {.name = request->name};
    struct wish wish = {.all_one = request->all_one};
    struct sonde_diag diag = {0};
    sonde_err err = rpc_selector(request->target, &query.target, &diag);
    if (!err)
        err = read_wish(request->rendering, request->sample_type, &wish, &diag);
    if (err)
        rpc_finish(call, err, &diag);
    else
        get(call, &wish, &query);
}
