/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU captures of fixed length: TiKV's and IOx's /debug/pprof/profile, gperftools' /pprof/profile
 * and GreptimeDB's /debug/prof/cpu. They only differ in the setup of their rows. */
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"
#include "gateway/request/cpu_params.h"

#define DEFAULT_HZ 99

void handle_profile(const struct request_context *context) {
    const struct profile_setup *setup = context->route->setup;
    struct sonde_diag diag = {0};
    struct profile_format format;
    struct cpu_mode mode;
    uint64_t seconds = setup->seconds, frequency = DEFAULT_HZ;
    if (!profile_format_read(context, setup, setup->format, &format))
        return;
    sonde_err err = cpu_params_read_times(&context->query, &seconds, &frequency, &diag);
    if (!err)
        err = cpu_params_read_mode(&context->query, &mode, &diag);
    if (!err)
        err = cpu_params_read_event(&context->query, &mode, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&format);
    request.target = &selector;
    request.rendering = &rendering;
    request.duration_ms = (uint32_t)seconds * 1000;
    request.frequency_hz = (uint32_t)frequency;
    request.mode = mode.mode;
    request.source = mode.source;
    request.max_overhead = mode.max_overhead;
    request.event = (char *)(uintptr_t)mode.event;
    request.period = mode.period;
    request.locks = mode.locks;
    request.no_progress = true;
    profile_reply_start(profile_reply_create(context, sizeof(struct profile_reply), &format),
                        context, &client_capture_cpu, &request.base,
                        request.duration_ms + PROFILE_GRACE_MS);
}
