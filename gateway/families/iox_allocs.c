/* SPDX-License-Identifier: Apache-2.0
 *
 * IOx's /debug/pprof/allocs: the allocations during `seconds`. */
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"

#define MAX_SAMPLE_BYTES (1u << 30)

void handle_allocs(const struct request_context *context) {
    const struct profile_setup *setup = context->route->setup;
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    struct sonde_diag diag = {0};
    struct profile_format format;
    uint64_t seconds = setup->seconds;
    if (!profile_format_read(context, setup, setup->format, &format))
        return;
    sonde_err err = query_whole(&context->query, "seconds", 1, 3600, &seconds, &diag);
    if (!err)
        err = query_whole(&context->query, "interval", 1, MAX_SAMPLE_BYTES, &request.sample_bytes,
                          &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&format);
    request.target = &selector;
    request.rendering = &rendering;
    request.duration_ms = (uint32_t)seconds * 1000;
    request.no_progress = true;
    profile_reply_start(profile_reply_create(context, sizeof(struct profile_reply), &format),
                        context, &client_capture_allocs, &request.base,
                        request.duration_ms + PROFILE_GRACE_MS);
}
