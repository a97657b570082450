/* SPDX-License-Identifier: Apache-2.0
 *
 * Julia's CPU paths: /profile, and the session /profile_start ... /profile_stop. Their words for
 * the same things: `delay` is the time between samples, `n` how many samples are kept,
 * `pprof=false` text. */
#include "gateway/request/profile_answer.h"
#include "gateway/request/reply.h"

#include <math.h>

#define LEASE_MS    3600000
#define MAX_SAMPLES 1000000000000u
#define DEADLINE_MS 5000

struct sampling {
    struct capture_mode mode;
    uint64_t samples;
    uint32_t frequency_hz;
};

/* round(1/delay) must be 1..10000. */
static sonde_err read_sampling(const struct query *query, struct sampling *sampling,
                               struct sonde_diag *diag) {
    double delay = 0.01;
    sampling->samples = 100000000;
    sonde_err err = query_count(query, "n", 1, MAX_SAMPLES, &sampling->samples, diag);
    if (!err)
        err = query_decimal(query, "delay", 0.0001, 2, &delay, diag);
    sampling->frequency_hz = (uint32_t)lround(1 / delay);
    return err ? err : capture_read_mode(query, &sampling->mode, diag);
}

static sonde_err read_form(const struct visit *visit, struct capture_form *form,
                           struct sonde_diag *diag) {
    bool pprof = true;
    sonde_err err = query_flag(&visit->query, "pprof", &pprof, diag);
    if (err)
        return err;
    return capture_choose(visit, visit->route->setup,
                          pprof ? SONDE__V1__FORMAT__PPROF : SONDE__V1__FORMAT__COLLAPSED, form,
                          diag);
}

void handle_julia_profile(struct visit *visit) {
    const struct profile_setup *setup = visit->route->setup;
    struct sonde_diag diag = {0};
    struct capture_form form;
    struct sampling sampling;
    double duration = setup->seconds;
    sonde_err err = read_form(visit, &form, &diag);
    if (!err)
        err = read_sampling(&visit->query, &sampling, &diag);
    if (!err)
        err = query_decimal(&visit->query, "duration", 0.001, 3600, &duration, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&visit->target);
    Sonde__V1__Rendering rendering = capture_rendering(&form);
    request.target = &selector;
    request.rendering = &rendering;
    request.duration_ms = (uint32_t)lround(duration * 1000);
    request.frequency_hz = sampling.frequency_hz;
    request.mode = sampling.mode.mode;
    request.max_overhead = sampling.mode.max_overhead;
    request.max_samples = sampling.samples;
    request.no_progress = true;
    capture_start(visit, &form, &client_capture_cpu, &request.base,
                  request.duration_ms + CAPTURE_GRACE_MS);
}

static void answer_started(struct relay *relay) {
    reply_text(relay_take_request(relay), 200, "CPU_PROFILE profiling started.");
}

static void on_started(struct relay *relay, const ProtobufCMessage *message) {
    answer_started(relay);
}

static void on_start_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    if (err == SONDE_SESSION_BUSY)
        relay_refuse_busy(relay, "Already in CPU Profiling", diag);
    else
        relay_refuse(relay, err ? err : SONDE_PROTOCOL, diag);
}

void handle_julia_start(struct visit *visit) {
    static const struct relay_events events = {on_started, on_start_ended, NULL};
    struct sonde_diag diag = {0};
    struct sampling sampling;
    char owner[RELAY_OWNER_SIZE];
    sonde_err err = read_sampling(&visit->query, &sampling, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    Sonde__V1__StartCpuRequest request = SONDE__V1__START_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&visit->target);
    request.target = &selector;
    request.frequency_hz = sampling.frequency_hz;
    request.mode = sampling.mode.mode;
    request.max_overhead = sampling.mode.max_overhead;
    request.max_samples = sampling.samples;
    request.lease_ms = LEASE_MS;
    request.owner = (char *)(uintptr_t)relay_owner(visit, owner);
    struct relay *relay = relay_create(visit, sizeof *relay, &events);
    if (visit->head)
        relay_check_target(relay, answer_started);
    else
        relay_call(relay, &client_start_cpu, &request.base, DEADLINE_MS);
}

void handle_julia_stop(struct visit *visit) {
    struct sonde_diag diag = {0};
    struct capture_form form;
    sonde_err err = read_form(visit, &form, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    Sonde__V1__StopCpuRequest request = SONDE__V1__STOP_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&visit->target);
    Sonde__V1__Rendering rendering = capture_rendering(&form);
    request.target = &selector;
    request.rendering = &rendering;
    capture_start(visit, &form, &client_stop_cpu, &request.base, CAPTURE_GRACE_MS);
}
