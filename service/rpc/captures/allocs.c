/* SPDX-License-Identifier: Apache-2.0
 *
 * CaptureAllocs, StartAllocs, StopAllocs: allocation windows, sent in the same way as CPU
 * captures. */
#include "service/rpc/base/text.h"
#include "service/rpc/captures/capture_call.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"

#include <stdlib.h>

#define KIND "allocs"

static void note_target(struct rpc_call *call, const struct engine_selector *target) {
    rpc_call_note(call, " target=%s pid=%d", rpc_text(rpc_call_arena(call), target->name),
                  (int)target->pid);
}

void rpc_capture_allocs(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureAllocsRequest *request = (const void *)message;
    struct engine_allocs_spec spec;
    struct rpc_rendering rendering;
    struct capture *capture = NULL;
    struct sonde_diag diag = {0};
    sonde_err err = rpc_allocs_spec(request, &spec, &rendering, &diag);
    struct rpc_capture_saving saved = {&spec.target, KIND, request->keep ? request->note : NULL,
                                       false};
    if (!err)
        err = rpc_capture_begin(call, &rendering, &saved, &capture, &diag);
    struct engine *engine = rpc_call_server(call)->engine;
    if (!err)
        note_target(call, &spec.target);
    if (*request->poll_key)
        spec.duration_ms = 0;
    if (!err && *request->poll_key)
        err = engine_allocs_poll(engine, &spec, request->poll_key, request->poll_total,
                                 &rpc_capture_events, capture, &diag);
    else if (!err)
        err = engine_capture_allocs(engine, &spec, &rpc_capture_events, capture,
                                    rpc_capture_handle(capture), &diag);
    if (err)
        rpc_capture_refuse(call, err, &diag);
}

/* The answer to StartAllocs, which waits until sampling has begun. */
struct started {
    struct loop_message message;
    struct rpc_call *call;
    sonde_err err;
    struct sonde_diag diag;
    struct engine_session_info info;
};

static void reply_started(struct loop_message *message) {
    struct started *started = container_of(message, struct started, message);
    struct rpc_call *call = started->call;
    Sonde__V1__AllocsSession session = SONDE__V1__ALLOCS_SESSION__INIT;
    session.start_unix_ns = started->info.start_unix_ns;
    session.lease_until_unix_ns = started->info.lease_until_unix_ns;
    session.owner = (char *)rpc_text(rpc_call_arena(call), started->info.owner);
    if (started->err)
        rpc_finish(call, started->err, &started->diag);
    else
        rpc_reply(call, &session.base);
    rpc_call_drop(call);
    free(started);
}

static void on_started(void *context, sonde_err err, const struct sonde_diag *diag,
                       const struct engine_session_info *info) {
    struct started *started = context;
    started->err = err;
    if (diag)
        started->diag = *diag;
    if (info)
        started->info = *info;
    loop_post(rpc_call_server(started->call)->loop, &started->message);
}

static sonde_err start(struct rpc_call *call, const Sonde__V1__StartAllocsRequest *request,
                       struct started *started, struct sonde_diag *diag) {
    struct engine_allocs_spec spec;
    uint32_t lease_ms = 0;
    sonde_err err = rpc_allocs_session_spec(request, &spec, &lease_ms, diag);
    if (err)
        return err;
    note_target(call, &spec.target);
    *started = (struct started){.message.run = reply_started, .call = call};
    rpc_call_take(call); /* dropped in reply_started */
    err = engine_allocs_start(rpc_call_server(call)->engine, &spec, lease_ms,
                              rpc_text(rpc_call_arena(call), request->owner), on_started, started,
                              diag);
    if (err)
        rpc_call_drop(call);
    return err;
}

void rpc_start_allocs(struct rpc_call *call, const ProtobufCMessage *message) {
    struct started *started = calloc(1, sizeof *started);
    struct sonde_diag diag = {0};
    sonde_err err = started ? start(call, (const void *)message, started, &diag)
                            : sonde_fail(&diag, SONDE_OUT_OF_MEMORY, "out of memory");
    if (!err)
        return;
    free(started);
    rpc_finish(call, err, &diag);
}

void rpc_stop_allocs(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__StopAllocsRequest *request = (const void *)message;
    struct engine_selector selector;
    struct rpc_rendering rendering;
    struct capture *capture = NULL;
    struct sonde_diag diag = {0};
    sonde_err err = rpc_selector(request->target, &selector, &diag);
    if (!err)
        err = rpc_rendering_allocs(request->rendering, request->sample_type, &rendering, &diag);
    struct rpc_capture_saving saved = {&selector, KIND, "session", true};
    if (!err)
        err = rpc_capture_begin(call, &rendering, &saved, &capture, &diag);
    if (!err)
        err = engine_allocs_stop(rpc_call_server(call)->engine, &selector, &rpc_capture_events,
                                 capture, &diag);
    if (err)
        rpc_capture_refuse(call, err, &diag);
}
