/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU captures of fixed length: /debug/pprof/profile, /pprof/profile, /debug/prof/cpu. They differ
 * in their row's setup alone. */
#include "gateway/request/profile_answer.h"
#include "gateway/request/reply.h"

#define DEFAULT_HZ 99

void handle_profile(struct visit *visit) {
    const struct profile_setup *setup = visit->route->setup;
    struct sonde_diag diag = {0};
    struct capture_form form;
    struct capture_mode mode;
    uint64_t seconds = setup->seconds, frequency = DEFAULT_HZ;
    if (!capture_read_form(visit, setup, setup->format, &form))
        return;
    sonde_err err = capture_read_times(&visit->query, &seconds, &frequency, &diag);
    if (!err)
        err = capture_read_mode(&visit->query, &mode, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&visit->target);
    Sonde__V1__Rendering rendering = capture_rendering(&form);
    request.target = &selector;
    request.rendering = &rendering;
    request.duration_ms = (uint32_t)seconds * 1000;
    request.frequency_hz = (uint32_t)frequency;
    request.mode = mode.mode;
    request.max_overhead = mode.max_overhead;
    request.no_progress = true;
    capture_start(visit, &form, &client_capture_cpu, &request.base,
                  request.duration_ms + CAPTURE_GRACE_MS);
}
