/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/reply/json_lines.h"

#include "api/json/json.h"

/* Not compressed: the compressor would hold a line back until its block is full. Nor may a proxy
 * hold lines back: nginx does so until its buffer is full, unless this header forbids it. */
static const struct http_answer answer = {.status = 200,
                                          .content_type = LINES_TYPE,
                                          .headers = {{"x-accel-buffering", "no"}},
                                          .header_count = 1,
                                          .no_gzip = true};

static void send_last_line(struct lines *lines) {
    struct http_request *request = relay_take_request(&lines->relay);
    http_stream_send(request, sonde_buf_slice(&lines->line));
    http_stream_end(request);
}

static void on_ready(void *context) {
    struct lines *lines = context;
    lines->in_flight = false;
    if (!lines->over) {
        relay_pull(&lines->relay);
        return;
    }
    send_last_line(lines);
    relay_settle(&lines->relay);
}

static void start(struct lines *lines) {
    if (!lines->started)
        http_stream_start(lines->relay.request, &answer, HTTP_UNKNOWN, on_ready, lines);
    lines->started = true;
}

void lines_send(struct lines *lines, const ProtobufCMessage *message) {
    lines->line.len = 0;
    sonde_json_message(&lines->line, message);
    sonde_buf_putc(&lines->line, '\n');
    start(lines);
    lines->in_flight = true;
    http_stream_send(lines->relay.request, sonde_buf_slice(&lines->line));
}

void lines_end(struct lines *lines, struct sonde_slice text) {
    lines->line.len = 0;
    sonde_buf_append(&lines->line, text.data, text.len);
    sonde_buf_putc(&lines->line, '\n');
    lines->over = true;
    start(lines);
    if (!lines->in_flight)
        send_last_line(lines);
}

void lines_end_with_status(struct lines *lines, sonde_err err, const char *text) {
    const struct sonde_error_info *info = sonde_error_info(err);
    struct sonde_buf status = {0};
    sonde_buf_printf(&status, "{\"code\":%d,\"status\":\"%s\",\"message\":", info->http_status,
                     info->reason);
    sonde_json_string(&status, sonde_slice_of(text));
    sonde_buf_putc(&status, '}');
    lines_end(lines, sonde_buf_slice(&status));
    sonde_buf_finish(&status);
}

void lines_on_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    struct lines *lines = (struct lines *)relay;
    if (!lines->started)
        relay_refuse(relay, err ? err : SONDE_PROTOCOL, diag);
    else
        lines_end_with_status(lines, err, err ? sonde_diag_text(diag, err) : lines->end_reason);
}

void lines_answer_head(struct relay *relay) {
    http_answer(relay_take_request(relay), &answer, (struct sonde_slice){"", 0});
}

void lines_finish(struct relay *relay) {
    sonde_buf_finish(&((struct lines *)relay)->line);
}
