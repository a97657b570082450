/* SPDX-License-Identifier: Apache-2.0
 *
 * Julia's memory paths: /allocs_profile, the session /allocs_profile_start to /allocs_profile_stop,
 * and /heap_snapshot. Julia states the density of allocation samples as a probability per
 * allocation, `sample_rate`. */
#include "gateway/families/heap_switch.h"
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"
#include "gateway/request/alloc_params.h"

#include <math.h>

#define LOWEST_RATE  1e-9
#define DEFAULT_RATE 0.0001
#define LEASE_MS     3600000
#define DEADLINE_MS  35000 /* the service waits 30 s for the target */

void handle_julia_allocs(const struct request_context *context) {
    const struct profile_setup *setup = context->route->setup;
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    struct sonde_diag diag = {0};
    struct profile_format format;
    double duration = setup->seconds;
    if (!profile_format_read(context, setup, setup->format, &format))
        return;
    request.probability = DEFAULT_RATE;
    sonde_err err =
        query_decimal(&context->query, "sample_rate", LOWEST_RATE, 1, &request.probability, &diag);
    if (!err)
        err = query_decimal(&context->query, "duration", 0.001, 3600, &duration, &diag);
    if (!err)
        err = alloc_params_check("duration", duration, "sample_rate", request.probability == 1,
                                 &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&format);
    request.target = &selector;
    request.rendering = &rendering;
    request.duration_ms = (uint32_t)lround(duration * 1000);
    request.no_progress = true;
    profile_reply_start(profile_reply_create(context, sizeof(struct profile_reply), &format),
                        context, &client_capture_allocs, &request.base,
                        request.duration_ms + PROFILE_GRACE_MS);
}

/* ---- The session ---- */

static void answer_started(struct relay *relay) {
    reply_text(relay_take_request(relay), 200, "Allocation profiling started.");
}

static void on_started(struct relay *relay, const ProtobufCMessage *message) {
    answer_started(relay);
}

static void on_start_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    if (err == SONDE_SESSION_BUSY)
        relay_refuse_busy(relay, "Already in Allocation Profiling", diag);
    else
        relay_refuse(relay, err ? err : SONDE_PROTOCOL, diag);
}

void handle_julia_allocs_start(const struct request_context *context) {
    static const struct relay_events events = {on_started, on_start_ended, NULL};
    Sonde__V1__StartAllocsRequest request = SONDE__V1__START_ALLOCS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    struct sonde_diag diag = {0};
    char owner[RELAY_OWNER_SIZE];
    request.target = &selector;
    request.probability = DEFAULT_RATE;
    sonde_err err =
        query_decimal(&context->query, "sample_rate", LOWEST_RATE, 1, &request.probability, &diag);
    bool keep_frames = false;
    if (!err)
        err = query_flag(&context->query, "allocator_frames", &keep_frames, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    request.keep_allocator_frames = keep_frames;
    request.lease_ms = request.probability < 1 ? LEASE_MS : ALLOC_PARAMS_EVERY_S * 1000;
    request.owner = (char *)(uintptr_t)relay_owner(context, owner);
    struct relay *relay = relay_create(context, sizeof *relay, &events);
    if (context->head)
        relay_check_target(relay, answer_started);
    else
        relay_call(relay, &client_start_allocs, &request.base, DEADLINE_MS);
}

void handle_julia_allocs_stop(const struct request_context *context) {
    const struct profile_setup *setup = context->route->setup;
    struct profile_format format;
    if (!profile_format_read(context, setup, setup->format, &format))
        return;
    Sonde__V1__StopAllocsRequest request = SONDE__V1__STOP_ALLOCS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&format);
    request.target = &selector;
    request.rendering = &rendering;
    profile_reply_start(profile_reply_create(context, sizeof(struct profile_reply), &format),
                        context, &client_stop_allocs, &request.base, PROFILE_GRACE_MS);
}

/* ---- The heap ---- */

static void refuse_snapshot(struct profile_reply *reply, sonde_err err,
                            const struct sonde_diag *diag) {
    if (err == SONDE_NOT_ACTIVE)
        heap_refuse_inactive(&reply->relay);
    else
        relay_refuse(&reply->relay, err, diag);
}

void handle_heap_snapshot(const struct request_context *context) {
    const struct profile_setup *setup = context->route->setup;
    struct sonde_diag diag = {0};
    struct profile_format format;
    bool all_one = false;
    sonde_err err = query_flag(&context->query, "all_one", &all_one, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    if (!profile_format_read(context, setup, setup->format, &format))
        return;
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&format);
    request.target = &selector;
    request.rendering = &rendering;
    request.all_one = all_one;
    struct profile_reply *reply = profile_reply_create(context, sizeof *reply, &format);
    reply->refuse = refuse_snapshot;
    profile_reply_start(reply, context, &client_heap_snapshot, &request.base, PROFILE_GRACE_MS);
}
