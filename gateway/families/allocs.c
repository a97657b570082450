/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows of allocations: IOx's /debug/pprof/allocs, and Julia's /allocs_profile with the session
 * /allocs_profile_start ... /allocs_profile_stop, whose density is a probability. */
#include "gateway/request/profile_answer.h"
#include "gateway/request/reply.h"

#include <math.h>

#define MAX_SAMPLE  (1u << 30)
#define LEAST_RATE  1e-9
#define JULIA_RATE  0.0001
#define LEASE_MS    3600000
#define DEADLINE_MS 5000

static void start_window(struct visit *visit, const struct capture_form *form,
                         Sonde__V1__CaptureAllocsRequest *request) {
    Sonde__V1__TargetSelector selector = relay_selector(&visit->target);
    Sonde__V1__Rendering rendering = capture_rendering(form);
    request->target = &selector;
    request->rendering = &rendering;
    request->no_progress = true;
    capture_start(visit, form, &client_capture_allocs, &request->base,
                  request->duration_ms + CAPTURE_GRACE_MS);
}

void handle_allocs(struct visit *visit) {
    const struct profile_setup *setup = visit->route->setup;
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    struct sonde_diag diag = {0};
    struct capture_form form;
    uint64_t seconds = setup->seconds;
    if (!capture_read_form(visit, setup, setup->format, &form))
        return;
    sonde_err err = query_whole(&visit->query, "seconds", 1, 3600, &seconds, &diag);
    if (!err)
        err = query_whole(&visit->query, "interval", 1, MAX_SAMPLE, &request.sample_bytes, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    request.duration_ms = (uint32_t)seconds * 1000;
    start_window(visit, &form, &request);
}

void handle_julia_allocs(struct visit *visit) {
    const struct profile_setup *setup = visit->route->setup;
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    struct sonde_diag diag = {0};
    struct capture_form form;
    double duration = setup->seconds;
    if (!capture_read_form(visit, setup, setup->format, &form))
        return;
    request.probability = JULIA_RATE;
    sonde_err err =
        query_decimal(&visit->query, "sample_rate", LEAST_RATE, 1, &request.probability, &diag);
    if (!err)
        err = query_decimal(&visit->query, "duration", 0.001, 3600, &duration, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    request.duration_ms = (uint32_t)lround(duration * 1000);
    start_window(visit, &form, &request);
}

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

void handle_julia_allocs_start(struct visit *visit) {
    static const struct relay_events events = {on_started, on_start_ended, NULL};
    Sonde__V1__StartAllocsRequest request = SONDE__V1__START_ALLOCS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&visit->target);
    struct sonde_diag diag = {0};
    char owner[RELAY_OWNER_SIZE];
    request.target = &selector;
    request.probability = JULIA_RATE;
    request.lease_ms = LEASE_MS;
    sonde_err err =
        query_decimal(&visit->query, "sample_rate", LEAST_RATE, 1, &request.probability, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    request.owner = (char *)(uintptr_t)relay_owner(visit, owner);
    struct relay *relay = relay_create(visit, sizeof *relay, &events);
    if (visit->head)
        relay_check_target(relay, answer_started);
    else
        relay_call(relay, &client_start_allocs, &request.base, DEADLINE_MS);
}

void handle_julia_allocs_stop(struct visit *visit) {
    const struct profile_setup *setup = visit->route->setup;
    struct capture_form form;
    if (!capture_read_form(visit, setup, setup->format, &form))
        return;
    Sonde__V1__StopAllocsRequest request = SONDE__V1__STOP_ALLOCS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&visit->target);
    Sonde__V1__Rendering rendering = capture_rendering(&form);
    request.target = &selector;
    request.rendering = &rendering;
    capture_start(visit, &form, &client_stop_allocs, &request.base, CAPTURE_GRACE_MS);
}
