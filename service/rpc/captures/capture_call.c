/* SPDX-License-Identifier: Apache-2.0
 *
 * CaptureCpu and StopCpu: progress while the capture runs, then the result, which a worker renders
 * and the loop sends in chunks as fast as the client reads. FinishCapture, StartCpu: one answer.
 *
 *     engine thread   on_progress, on_profile, on_end ──post──▶ loop
 *     loop            capture_* below: the newest progress, the result, the end
 *     worker          draw ──post──▶ loop: the document (answer/document.h)
 *
 * The capture holds one reference to its call until on_end, and another while a worker renders. */
#include "service/rpc/captures/capture_call.h"

#include "api/profile/select/contentions.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/answer/document.h"
#include "service/rpc/base/text.h"
#include "service/rpc/captures/result.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/request/params.h"
#include "service/rpc/saved/save_capture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIND    "cpu"
#define MAX_KEY 64

struct progress {
    struct loop_message message;
    struct capture *capture;
    struct engine_progress metadata;
    char hottest[256];
};

struct capture {
    struct rpc_document document;
    struct engine_capture *engine_capture; /* NULL for sessions and after the end */
    struct rpc_rendering rendering;
    struct progress *progress; /* the newest one not sent yet */
    struct rpc_result *result;
    struct loop_message end_message;
    sonde_err end_err;
    struct sonde_diag end_diag;
    struct save_capture saving;
    bool only_locks;
    char key[MAX_KEY + 1]; /* "" = none */
};

static void send_progress(struct capture *capture) {
    const struct engine_progress *metadata = &capture->progress->metadata;
    Sonde__V1__Progress progress = SONDE__V1__PROGRESS__INIT;
    Sonde__V1__CaptureEvent event = SONDE__V1__CAPTURE_EVENT__INIT;
    struct sonde_arena arena = {0};
    progress.elapsed_ms = metadata->elapsed_ms;
    progress.duration_ms = metadata->duration_ms;
    progress.samples = metadata->samples;
    progress.dropped = metadata->dropped;
    progress.hottest = (char *)rpc_text(&arena, capture->progress->hottest);
    progress.hottest_share = metadata->hottest_share;
    event.event_case = SONDE__V1__CAPTURE_EVENT__EVENT_PROGRESS;
    event.progress = &progress;
    rpc_send(capture->document.call, &event.base);
    sonde_arena_finish(&arena);
    free(capture->progress);
    capture->progress = NULL;
}

/* Sends the next message unless one is in flight. */
static void send_next(struct rpc_call *call) {
    struct capture *capture = rpc_call_state(call);
    if (capture->document.is_complete)
        rpc_document_on_sent(call);
    else if (capture->progress && !rpc_call_sending(call) && !rpc_call_finished(call))
        send_progress(capture);
}

/* ---- Drawing ---- */

/* Leaves the waits for locks. */
static sonde_err select_locks(struct rpc_result *result) {
    struct sonde_profile *locks;
    sonde_err err = sonde_profile_only_locks(result->profile, &locks);
    if (err)
        return err;
    sonde_profile_destroy(result->profile);
    result->profile = locks;
    return SONDE_OK;
}

static void draw(struct rpc_document *document) {
    struct capture *capture = container_of(document, struct capture, document);
    struct rpc_result *result = capture->result;
    if (capture->saving.saved)
        save_capture_write(&capture->saving, result->profile, &result->metadata);
    if (capture->only_locks)
        document->err = select_locks(result);
    const struct sonde_draw_options options =
        rpc_draw_options(result->profile, &capture->rendering.options);
    if (!document->err)
        document->err = sonde_draw(result->profile, capture->rendering.format, &options,
                                   &document->bytes, &document->diag);
    sonde_profile_destroy(result->profile);
    result->profile = NULL;
}

static void on_drawn(struct rpc_document *document) {
    struct capture *capture = container_of(document, struct capture, document);
    save_capture_add(&capture->saving, document->call);
}

static void describe(struct rpc_document *document, Sonde__V1__ResultStart *start) {
    const struct capture *capture = container_of(document, struct capture, document);
    struct engine_metadata *metadata = &capture->result->metadata;
    int64_t ran_ns = metadata->end_unix_ns - metadata->start_unix_ns;
    start->media_type = (char *)capture->rendering.info->media_type;
    start->samples = metadata->samples;
    start->dropped = metadata->dropped;
    start->truncated = metadata->truncated;
    start->duration_ms = ran_ns > 0 ? (uint32_t)((ran_ns + 500000) / 1000000) : 0;
    start->clock = metadata->clock;
    start->clock_note = metadata->clock_note;
    start->target_gone = metadata->target_gone;
    start->target_execed = metadata->target_execed;
    start->frequency_hz = metadata->frequency_hz;
    start->budget_note = metadata->budget_note;
    start->target = (char *)rpc_text(rpc_call_arena(document->call), metadata->target_name);
    start->pid = metadata->pid;
    save_capture_report(&capture->saving, start);
    rpc_call_note(document->call, " samples=%llu dropped=%llu",
                  (unsigned long long)metadata->samples, (unsigned long long)metadata->dropped);
}

/* ---- Events of the engine ---- */

static void capture_ended(struct loop_message *message) {
    struct capture *capture = container_of(message, struct capture, end_message);
    struct rpc_call *call = capture->document.call;
    if (capture->engine_capture)
        engine_capture_release(capture->engine_capture);
    capture->engine_capture = NULL;
    if (capture->end_err)
        rpc_finish(call, capture->end_err, &capture->end_diag);
    else if (!capture->result)
        rpc_finish(call, SONDE_OUT_OF_MEMORY, NULL);
    else if (!rpc_call_finished(call))
        rpc_document_start(&capture->document);
    rpc_call_drop(call);
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct capture *capture = context;
    capture->end_err = err;
    if (diag)
        capture->end_diag = *diag;
    capture->end_message.run = capture_ended;
    loop_post(rpc_call_server(capture->document.call)->loop, &capture->end_message);
}

static void capture_has_result(struct loop_message *message) {
    struct rpc_result *result = container_of(message, struct rpc_result, message);
    struct capture *capture = result->owner;
    rpc_result_destroy(capture->result);
    capture->result = result;
}

static void on_profile(void *context, struct sonde_profile *profile,
                       const struct engine_metadata *metadata) {
    struct capture *capture = context;
    struct rpc_result *result = rpc_result_create(capture, profile, metadata);
    if (!result)
        return; /* on_end then finds no result */
    result->message.run = capture_has_result;
    loop_post(rpc_call_server(capture->document.call)->loop, &result->message);
}

static void capture_progressed(struct loop_message *message) {
    struct progress *progress = container_of(message, struct progress, message);
    struct capture *capture = progress->capture;
    free(capture->progress);
    capture->progress = progress;
    send_next(capture->document.call);
}

static void on_progress(void *context, const struct engine_progress *metadata) {
    struct capture *capture = context;
    struct progress *progress = calloc(1, sizeof *progress);
    if (!progress)
        return;
    progress->capture = capture;
    progress->metadata = *metadata;
    rpc_text_copy(progress->hottest, sizeof progress->hottest,
                  metadata->hottest ? metadata->hottest : "");
    progress->message.run = capture_progressed;
    loop_post(rpc_call_server(capture->document.call)->loop, &progress->message);
}

static void on_gone(struct rpc_call *call) {
    struct capture *capture = rpc_call_state(call);
    if (capture->engine_capture)
        engine_capture_cancel(capture->engine_capture);
}

static void release(struct rpc_call *call) {
    struct capture *capture = rpc_call_state(call);
    rpc_result_destroy(capture->result);
    save_capture_finish(&capture->saving);
    rpc_document_finish(&capture->document);
    free(capture->progress);
    free(capture);
}

static const struct rpc_call_events call_events = {send_next, on_gone, NULL, release};
const struct engine_capture_events rpc_capture_events = {
    .on_progress = on_progress, .on_profile = on_profile, .on_end = on_end};

sonde_err rpc_capture_begin(struct rpc_call *call, const struct rpc_rendering *rendering,
                            const struct rpc_capture_saving *saved, struct capture **created,
                            struct sonde_diag *diag) {
    static const struct rpc_document_events events = {draw, on_drawn, describe};
    struct capture *capture = *created = calloc(1, sizeof *capture);
    if (!capture)
        return SONDE_OUT_OF_MEMORY;
    rpc_document_init(&capture->document, call, &events);
    capture->rendering = *rendering;
    rpc_call_set(call, &call_events, capture);
    rpc_call_take(call); /* dropped in on_end */
    if (!saved->note)
        return SONDE_OK;
    sonde_err err =
        save_capture_begin(&capture->saving, call, saved->target, saved->kind, saved->note, diag);
    capture->saving.is_session = !err && saved->is_session;
    return err;
}

void rpc_capture_refuse(struct rpc_call *call, sonde_err err, const struct sonde_diag *diag) {
    rpc_finish(call, err, diag);
    if (rpc_call_state(call))
        rpc_call_drop(call);
}

struct engine_capture **rpc_capture_handle(struct capture *capture) {
    return &capture->engine_capture;
}

static sonde_err check_key(const char *key, struct sonde_diag *diag) {
    if (strlen(key) <= MAX_KEY)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "key: longer than %d bytes", MAX_KEY);
}

void rpc_capture_cpu(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureCpuRequest *request = (const void *)message;
    struct engine_cpu_spec spec;
    struct rpc_rendering rendering;
    struct capture *capture = NULL;
    struct sonde_diag diag = {0};
    sonde_err err = rpc_capture_spec(request, rpc_call_owner(call), &spec, &rendering, &diag);
    if (!err)
        err = check_key(request->key, &diag);
    struct rpc_capture_saving saved = {&spec.target, KIND, request->keep ? request->note : NULL,
                                       false};
    if (!err)
        err = rpc_capture_begin(call, &rendering, &saved, &capture, &diag);
    if (!err) {
        snprintf(capture->key, sizeof capture->key, "%s", request->key);
        capture->only_locks = request->only_locks;
        spec.counts_waits = request->as_contentions;
        spec.result_by_ns = rpc_call_deadline_ns(call);
        spec.has_timeline = request->keep || capture->rendering.format == SONDE_FORMAT_FIREFOX;
        rpc_call_note(call, " target=%s%s pid=%d hz=%u", spec.target.all ? "@all:" : "",
                      rpc_text(rpc_call_arena(call), spec.target.name), (int)spec.target.pid,
                      spec.frequency_hz);
        err = engine_capture_cpu(rpc_call_server(call)->engine, &spec, &rpc_capture_events, capture,
                                 &capture->engine_capture, &diag);
    }
    if (err)
        rpc_capture_refuse(call, err, &diag);
}

/* Whoever knows the key may end the capture. One that has already ended is still found. */
void rpc_finish_capture(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__FinishCaptureRequest *request = (const void *)message;
    Sonde__V1__FinishCaptureResponse response = SONDE__V1__FINISH_CAPTURE_RESPONSE__INIT;
    struct sonde_diag diag = {0};
    bool is_found = false;
    struct rpc_call *other = rpc_call_server(call)->calls;
    for (; other && request->key[0]; other = rpc_call_next(other)) {
        struct capture *capture = rpc_call_state(other);
        if (!rpc_call_has(other, &call_events) || strcmp(capture->key, request->key) != 0)
            continue;
        is_found = true;
        if (capture->engine_capture)
            engine_capture_finish(capture->engine_capture);
    }
    if (is_found)
        rpc_reply(call, &response.base);
    else
        rpc_finish(call, sonde_fail(&diag, SONDE_NOT_FOUND, "no capture with this key is running"),
                   &diag);
}

void rpc_start_cpu(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__StartCpuRequest *request = (const void *)message;
    Sonde__V1__CpuSession session = SONDE__V1__CPU_SESSION__INIT;
    struct engine_session_info info = {0};
    struct engine_cpu_spec spec;
    struct sonde_diag diag = {0};
    uint32_t lease_ms = 0;
    sonde_err err = rpc_session_spec(request, rpc_call_owner(call), &spec, &lease_ms, &diag);
    if (!err)
        err = engine_session_start(rpc_call_server(call)->engine, &spec, lease_ms,
                                   rpc_text(rpc_call_arena(call), request->owner), &info, &diag);
    if (err) {
        rpc_finish(call, err, &diag);
        return;
    }
    session.start_unix_ns = info.start_unix_ns;
    session.lease_until_unix_ns = info.lease_until_unix_ns;
    session.owner = (char *)rpc_text(rpc_call_arena(call), info.owner);
    rpc_reply(call, &session.base);
}

void rpc_stop_cpu(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__StopCpuRequest *request = (const void *)message;
    struct engine_selector selector;
    struct rpc_rendering rendering;
    struct capture *capture = NULL;
    struct sonde_diag diag = {0};
    sonde_err err = rpc_selector_of_many(request->target, rpc_call_owner(call), &selector, &diag);
    if (!err)
        err = rpc_rendering(request->rendering, &rendering, &diag);
    if (!err && selector.all)
        rpc_rendering_of_many(&rendering);
    struct rpc_capture_saving saved = {&selector, KIND, "session", true};
    if (!err)
        err = rpc_capture_begin(call, &rendering, &saved, &capture, &diag);
    if (!err)
        err = engine_session_stop(rpc_call_server(call)->engine, &selector, &rpc_capture_events,
                                  capture, &diag);
    if (err)
        rpc_capture_refuse(call, err, &diag);
}
