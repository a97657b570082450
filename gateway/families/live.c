/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/families/live.h"
#include "gateway/request/profile_answer.h"

#include "gateway/handlers.h"
#include "gateway/request/json_lines.h"
#include "gateway/request/reply.h"

#include <stdio.h>

#define DEFAULT_WINDOW_MS 1000
#define DEFAULT_HZ        99

struct live {
    struct lines lines;
    char end_reason[64];
};

static void on_target(struct relay *relay, const ProtobufCMessage *message) {
    lines_send((struct lines *)relay, message);
}

static void on_window(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__CpuWindow *window = (const void *)message;
    struct live *live = (struct live *)relay;
    if (window->last)
        snprintf(live->end_reason, sizeof live->end_reason, "%s", window->end_reason);
    lines_send(&live->lines, message);
}

static void on_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    struct live *live = (struct live *)relay;
    if (!live->lines.started)
        relay_refuse(relay, err ? err : SONDE_PROTOCOL, diag);
    else
        lines_end_with_status(&live->lines, err,
                              err ? sonde_diag_text(diag, err) : live->end_reason);
}

void live_watch_targets(struct visit *visit) {
    static const struct relay_events events = {on_target, on_end, lines_finish};
    struct relay *relay = relay_create(visit, sizeof(struct live), &events);
    Sonde__V1__WatchTargetsRequest request = SONDE__V1__WATCH_TARGETS_REQUEST__INIT;
    if (visit->head) {
        lines_answer_head(relay);
        relay_settle(relay);
        return;
    }
    relay_call(relay, &client_watch_targets, &request.base, 0);
}

static sonde_err read_live(const struct query *query, Sonde__V1__StreamCpuRequest *request,
                           struct sonde_diag *diag) {
    uint64_t window = DEFAULT_WINDOW_MS, frequency = DEFAULT_HZ, windows = 0;
    struct capture_mode mode;
    sonde_err err = query_whole(query, "window", 50, 60000, &window, diag);
    if (!err)
        err = query_whole(query, "frequency", 1, 10000, &frequency, diag);
    if (!err)
        err = query_whole(query, "windows", 1, UINT32_MAX, &windows, diag);
    if (!err)
        err = capture_read_mode(query, &mode, diag);
    if (err)
        return err;
    request->mode = mode.mode;
    request->max_overhead = mode.max_overhead;
    request->window_ms = (uint32_t)window;
    request->frequency_hz = (uint32_t)frequency;
    request->max_windows = (uint32_t)windows;
    return err;
}

void handle_cpu_live(struct visit *visit) {
    static const struct relay_events events = {on_window, on_end, lines_finish};
    Sonde__V1__StreamCpuRequest request = SONDE__V1__STREAM_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&visit->target);
    struct sonde_diag diag = {0};
    sonde_err err = read_live(&visit->query, &request, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    struct relay *relay = relay_create(visit, sizeof(struct live), &events);
    request.target = &selector;
    if (visit->head)
        relay_check_target(relay, lines_answer_head);
    else
        relay_call(relay, &client_stream_cpu, &request.base, 0);
}
