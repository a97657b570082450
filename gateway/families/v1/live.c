/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/cpu/live: CPU samples as they are taken, one line of JSON per window. The last line is the
 * status: {"code":200,"status":"OK","message":"max_windows"}, or an error's. */
#include "gateway/handlers.h"
#include "gateway/reply/json_lines.h"
#include "gateway/reply/reply.h"
#include "gateway/request/cpu_params.h"

#include <stdio.h>

#define DEFAULT_WINDOW_MS 1000
#define DEFAULT_HZ        99

static void on_window(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__CpuWindow *window = (const void *)message;
    struct lines *lines = (struct lines *)relay;
    if (window->last)
        snprintf(lines->end_reason, sizeof lines->end_reason, "%s", window->end_reason);
    lines_send(lines, message);
}

static sonde_err read_request(const struct query *query, Sonde__V1__StreamCpuRequest *request,
                              struct sonde_diag *diag) {
    uint64_t window_ms = DEFAULT_WINDOW_MS, frequency_hz = DEFAULT_HZ, windows = 0;
    struct cpu_mode mode;
    sonde_err err = query_whole(query, "window", 50, 60000, &window_ms, diag);
    if (!err)
        err = query_whole(query, "frequency", 1, 10000, &frequency_hz, diag);
    if (!err)
        err = query_whole(query, "windows", 1, UINT32_MAX, &windows, diag);
    if (!err)
        err = cpu_params_read_mode(query, &mode, diag);
    if (err)
        return err;
    request->mode = mode.mode;
    request->source = mode.source;
    request->max_overhead = mode.max_overhead;
    request->window_ms = (uint32_t)window_ms;
    request->frequency_hz = (uint32_t)frequency_hz;
    request->max_windows = (uint32_t)windows;
    return err;
}

void handle_cpu_live(const struct request_context *context) {
    static const struct relay_events events = {on_window, lines_on_end, lines_finish};
    Sonde__V1__StreamCpuRequest request = SONDE__V1__STREAM_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    struct sonde_diag diag = {0};
    sonde_err err = read_request(&context->query, &request, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    struct relay *relay = relay_create(context, sizeof(struct lines), &events);
    request.target = &selector;
    if (context->head)
        relay_check_target(relay, lines_answer_head);
    else
        relay_call(relay, &client_stream_cpu, &request.base, 0);
}
