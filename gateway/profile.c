/* SPDX-License-Identifier: Apache-2.0
 *
 * CPU captures of fixed length: /debug/pprof/profile, /pprof/profile, /debug/prof/cpu. They differ
 * in their row's setup alone. */
#include "gateway/capture.h"
#include "gateway/reply.h"

#include <stdio.h>

#define DEFAULT_HZ 99

/* GreptimeDB's paths answer a query that does not parse in its framework's words, as plain text. */
static void refuse_query(struct visit *visit, const char *reason) {
    char text[400];
    snprintf(text, sizeof text, "Failed to deserialize query string: %s", reason);
    reply_text(visit->request, 400, text);
}

static void refuse_form(struct visit *visit, const struct profile_setup *setup, sonde_err err,
                        const struct sonde_diag *diag) {
    if (setup->flags & PROFILE_STRICT)
        refuse_query(visit, sonde_diag_text(diag, err));
    else
        reply_error(visit->request, visit->family, err, diag);
}

void handle_profile(struct visit *visit) {
    const struct profile_setup *setup = visit->route->setup;
    struct sonde_diag diag = {0};
    struct capture_form form;
    uint64_t seconds = setup->seconds, frequency = DEFAULT_HZ;
    if ((setup->flags & PROFILE_STRICT) && query_occurrences(&visit->query, "output") > 1) {
        refuse_query(visit, "duplicate field `output`");
        return;
    }
    sonde_err err = capture_choose(visit, setup, setup->format, &form, &diag);
    if (err) {
        refuse_form(visit, setup, err, &diag);
        return;
    }
    err = capture_read_times(&visit->query, &seconds, &frequency, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = exchange_selector(&visit->target);
    Sonde__V1__Rendering rendering = capture_rendering(&form);
    request.target = &selector;
    request.rendering = &rendering;
    request.duration_ms = (uint32_t)seconds * 1000;
    request.frequency_hz = (uint32_t)frequency;
    request.no_progress = true;
    capture_start(visit, &form, &client_capture_cpu, &request.base,
                  request.duration_ms + CAPTURE_GRACE_MS);
}
