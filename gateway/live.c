/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/live.h"

#include "api/json/json.h"
#include "gateway/handlers.h"
#include "gateway/reply.h"

#include <stdio.h>

#define DEFAULT_WINDOW_MS 1000
#define DEFAULT_HZ        99

struct live {
    struct exchange exchange;
    bool started, in_flight; /* headers have left; a line is on its way */
    bool over;               /* no call any more: `line` is the last one */
    struct sonde_buf line;
    char end_reason[64];
};

static struct http_answer answer_of(void) {
    /* Not compressed: a line must leave at once, not with its block. */
    return (struct http_answer){.status = 200, .content_type = LIVE_LINES, .no_gzip = true};
}

static void send_last_line(struct live *live) {
    struct http_request *request = exchange_take_request(&live->exchange);
    http_stream_send(request, sonde_buf_slice(&live->line));
    http_stream_end(request);
}

static void on_ready(void *context) {
    struct live *live = context;
    live->in_flight = false;
    if (!live->over) {
        exchange_pull(&live->exchange);
        return;
    }
    send_last_line(live);
    exchange_settle(&live->exchange);
}

static void on_line(struct exchange *exchange, const ProtobufCMessage *message) {
    struct live *live = (struct live *)exchange;
    struct http_answer answer = answer_of();
    live->line.len = 0;
    sonde_json_message(&live->line, message);
    sonde_buf_putc(&live->line, '\n');
    if (!live->started)
        http_stream_start(exchange->request, &answer, HTTP_UNKNOWN, on_ready, live);
    live->started = live->in_flight = true;
    http_stream_send(exchange->request, sonde_buf_slice(&live->line));
}

static void on_window(struct exchange *exchange, const ProtobufCMessage *message) {
    const Sonde__V1__CpuWindow *window = (const void *)message;
    struct live *live = (struct live *)exchange;
    if (window->last)
        snprintf(live->end_reason, sizeof live->end_reason, "%s", window->end_reason);
    on_line(exchange, message);
}

static void on_end(struct exchange *exchange, sonde_err err, const struct sonde_diag *diag) {
    struct live *live = (struct live *)exchange;
    const struct sonde_error_info *info = sonde_error_info(err);
    if (!live->started) {
        exchange_refuse(exchange, err ? err : SONDE_PROTOCOL, diag);
        return;
    }
    const char *text = err ? sonde_diag_text(diag, err) : live->end_reason;
    live->line.len = 0;
    sonde_buf_printf(&live->line, "{\"code\":%d,\"status\":\"%s\",\"message\":", info->http_status,
                     info->reason);
    sonde_json_string(&live->line, sonde_slice_of(text));
    sonde_buf_puts(&live->line, "}\n");
    live->over = true;
    if (!live->in_flight)
        send_last_line(live);
}

static void finish(struct exchange *exchange) {
    sonde_buf_finish(&((struct live *)exchange)->line);
}

static void answer_head(struct exchange *exchange) {
    struct http_answer answer = answer_of();
    http_answer(exchange_take_request(exchange), &answer, (struct sonde_slice){"", 0});
}

void live_watch_targets(struct visit *visit) {
    static const struct exchange_events events = {on_line, on_end, finish};
    struct live *live = exchange_create(visit, sizeof *live, &events);
    Sonde__V1__WatchTargetsRequest request = SONDE__V1__WATCH_TARGETS_REQUEST__INIT;
    if (visit->head) {
        answer_head(&live->exchange);
        exchange_settle(&live->exchange);
        return;
    }
    exchange_call(&live->exchange, &client_watch_targets, &request.base, 0);
}

static sonde_err read_live(const struct query *query, Sonde__V1__StreamCpuRequest *request,
                           struct sonde_diag *diag) {
    uint64_t window = DEFAULT_WINDOW_MS, frequency = DEFAULT_HZ, windows = 0;
    sonde_err err = query_whole(query, "window", 50, 60000, &window, diag);
    if (!err)
        err = query_whole(query, "frequency", 1, 10000, &frequency, diag);
    if (!err)
        err = query_whole(query, "windows", 1, UINT32_MAX, &windows, diag);
    request->window_ms = (uint32_t)window;
    request->frequency_hz = (uint32_t)frequency;
    request->max_windows = (uint32_t)windows;
    return err;
}

void handle_cpu_live(struct visit *visit) {
    static const struct exchange_events events = {on_window, on_end, finish};
    Sonde__V1__StreamCpuRequest request = SONDE__V1__STREAM_CPU_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = exchange_selector(&visit->target);
    struct sonde_diag diag = {0};
    sonde_err err = read_live(&visit->query, &request, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    struct live *live = exchange_create(visit, sizeof *live, &events);
    request.target = &selector;
    if (visit->head)
        exchange_check_target(&live->exchange, answer_head);
    else
        exchange_call(&live->exchange, &client_stream_cpu, &request.base, 0);
}
