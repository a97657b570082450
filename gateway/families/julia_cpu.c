/* SPDX-License-Identifier: Apache-2.0
 *
 * Julia's CPU paths: /profile, the session /profile_start to /profile_stop, and /task_backtraces.
 * Their parameters are Julia's: `delay` is the time between samples in seconds, `n` the maximum
 * number of samples, and `pprof=false` asks for text. */
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"
#include "gateway/request/cpu_params.h"

#include <math.h>

#define LEASE_MS              3600000
#define MAX_SAMPLES           1000000000000u
#define DEADLINE_MS           5000
#define BACKTRACE_DEADLINE_MS 60000

struct sampling {
    struct cpu_mode mode;
    uint64_t samples;
    uint32_t frequency_hz;
};

/* The frequency is round(1 / delay). The bounds of `delay` keep it within 1 to 10000 Hz. */
static sonde_err read_sampling(const struct query *query, struct sampling *sampling,
                               struct sonde_diag *diag) {
    double delay = 0.01;
    sampling->samples = 100000000;
    sonde_err err = query_count(query, "n", 1, MAX_SAMPLES, &sampling->samples, diag);
    if (!err)
        err = query_decimal(query, "delay", 0.0001, 2, &delay, diag);
    sampling->frequency_hz = (uint32_t)lround(1 / delay);
    return err ? err : cpu_params_read_mode(query, &sampling->mode, diag);
}

static sonde_err read_form(const struct request_context *context, struct profile_format *format,
                           struct sonde_diag *diag) {
    bool pprof = true;
    sonde_err err = query_flag(&context->query, "pprof", &pprof, diag);
    if (err)
        return err;
    return profile_format_choose(context, context->route->setup,
                                 pprof ? SONDE__V1__FORMAT__PPROF : SONDE__V1__FORMAT__COLLAPSED,
                                 format, diag);
}

void handle_julia_profile(const struct request_context *context) {
    const struct profile_setup *setup = context->route->setup;
    struct sonde_diag diag = {0};
    struct profile_format format;
    struct sampling sampling;
    double duration = setup->seconds;
    sonde_err err = read_form(context, &format, &diag);
    if (!err)
        err = read_sampling(&context->query, &sampling, &diag);
    if (!err)
        err = cpu_params_read_event(&context->query, &sampling.mode, &diag);
    if (!err)
        err = query_decimal(&context->query, "duration", 0.001, 3600, &duration, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&format);
    request.target = &selector;
    request.rendering = &rendering;
    request.duration_ms = (uint32_t)lround(duration * 1000);
    request.frequency_hz = sampling.frequency_hz;
    request.mode = sampling.mode.mode;
    request.source = sampling.mode.source;
    request.max_overhead = sampling.mode.max_overhead;
    request.event = (char *)(uintptr_t)sampling.mode.event;
    request.period = sampling.mode.period;
    request.locks = sampling.mode.locks;
    request.max_samples = sampling.samples;
    request.no_progress = true;
    profile_reply_start(profile_reply_create(context, sizeof(struct profile_reply), &format),
                        context, &client_capture_cpu, &request.base,
                        request.duration_ms + PROFILE_GRACE_MS);
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

void handle_julia_start(const struct request_context *context) {
    static const struct relay_events events = {on_started, on_start_ended, NULL};
    struct sonde_diag diag = {0};
    struct sampling sampling;
    char owner[RELAY_OWNER_SIZE];
    sonde_err err = read_sampling(&context->query, &sampling, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    Sonde__V1__StartCpuRequest request = SONDE__V1__START_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    request.target = &selector;
    request.frequency_hz = sampling.frequency_hz;
    request.mode = sampling.mode.mode;
    request.source = sampling.mode.source;
    request.max_overhead = sampling.mode.max_overhead;
    request.max_samples = sampling.samples;
    request.lease_ms = LEASE_MS;
    request.owner = (char *)(uintptr_t)relay_owner(context, owner);
    struct relay *relay = relay_create(context, sizeof *relay, &events);
    if (context->head)
        relay_check_target(relay, answer_started);
    else
        relay_call(relay, &client_start_cpu, &request.base, DEADLINE_MS);
}

void handle_julia_stop(const struct request_context *context) {
    struct sonde_diag diag = {0};
    struct profile_format format;
    sonde_err err = read_form(context, &format, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    Sonde__V1__StopCpuRequest request = SONDE__V1__STOP_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&format);
    request.target = &selector;
    request.rendering = &rendering;
    profile_reply_start(profile_reply_create(context, sizeof(struct profile_reply), &format),
                        context, &client_stop_cpu, &request.base, PROFILE_GRACE_MS);
}

/* ---- Stacks of all threads ---- */

static void on_backtraces(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__Backtraces *backtraces = (const void *)message;
    reply_bytes(relay_take_request(relay), REPLY_TEXT, sonde_slice_of(backtraces->text));
}

/* The body is the text itself, as the document promises. ProfileEndpoints.jl answers with the path
 * of a file on the server instead. */
void handle_task_backtraces(const struct request_context *context) {
    static const struct relay_events events = {.on_message = on_backtraces};
    Sonde__V1__GetBacktracesRequest request = SONDE__V1__GET_BACKTRACES_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    request.target = &selector;
    request.as_text = true;
    relay_call(relay_create(context, sizeof(struct relay), &events), &client_get_backtraces,
               &request.base, BACKTRACE_DEADLINE_MS);
}
