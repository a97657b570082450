/* SPDX-License-Identifier: Apache-2.0
 *
 * CaptureAllocs, StartAllocs, StopAllocs: allocation windows, sent in the same way as CPU
 * captures. */
#include "service/rpc/captures/capture_call.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/core/text.h"

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
    if (!err) {
        note_target(call, &spec.target);
        err = engine_capture_allocs(rpc_call_server(call)->engine, &spec, &rpc_capture_events,
                                    capture, rpc_capture_handle(capture), &diag);
    }
    if (err)
        rpc_capture_refuse(call, err, &diag);
}

void rpc_start_allocs(struct rpc_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__StartAllocsRequest *request = (const void *)message;
    Sonde__V1__AllocsSession session = SONDE__V1__ALLOCS_SESSION__INIT;
    struct engine_session_info info = {0};
    struct engine_allocs_spec spec;
    struct sonde_diag diag = {0};
    uint32_t lease_ms = 0;
    sonde_err err = rpc_allocs_session_spec(request, &spec, &lease_ms, &diag);
    if (!err)
        err = engine_allocs_start(rpc_call_server(call)->engine, &spec, lease_ms,
                                  rpc_text(rpc_call_arena(call), request->owner), &info, &diag);
    if (err) {
        rpc_finish(call, err, &diag);
        return;
    }
    note_target(call, &spec.target);
    session.start_unix_ns = info.start_unix_ns;
    session.lease_until_unix_ns = info.lease_until_unix_ns;
    session.owner = (char *)rpc_text(rpc_call_arena(call), info.owner);
    rpc_reply(call, &session.base);
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
