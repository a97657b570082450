/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/captures: GET lists the saved captures, POST takes a capture and saves it. POST answers 201
 * with a Location when the capture has ended. A client that accepts application/x-ndjson gets the
 * progress, line by line, and the location in the last line. */
#include "api/json/json.h"
#include "gateway/reply/json_lines.h"
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"
#include "gateway/request/alloc_params.h"
#include "gateway/request/cpu_params.h"

#include <stdio.h>
#include <string.h>

#define DEADLINE_MS      5000
#define DEFAULT_SECONDS  10
#define DEFAULT_HZ       99
#define MAX_NOTE         200
#define MAX_SAMPLE_BYTES (1u << 30)

/* ---- The list ---- */

static void list_captures(const struct request_context *context) {
    static const struct relay_events events = {.on_message = relay_answer_json};
    Sonde__V1__ListCapturesRequest request = SONDE__V1__LIST_CAPTURES_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    request.target = &selector;
    relay_call(relay_create(context, sizeof(struct relay), &events), &client_list_captures,
               &request.base, DEADLINE_MS);
}

/* ---- Taking a capture ---- */

struct new_capture {
    struct lines lines;
    bool wants_lines;
    uint64_t id; /* 0: not saved */
    struct sonde_buf json;
    struct sonde_diag not_saved;
};

static void on_result(struct new_capture *capture, const Sonde__V1__ResultStart *result) {
    capture->id = result->capture_id;
    if (result->capture)
        sonde_json_message(&capture->json, &result->capture->base);
    snprintf(capture->not_saved.text, sizeof capture->not_saved.text,
             "the capture was taken but could not be saved: %s", result->keep_error);
    http_request_note(capture->lines.relay.request, "samples=%llu dropped=%llu capture=%llu",
                      (unsigned long long)result->samples, (unsigned long long)result->dropped,
                      (unsigned long long)result->capture_id);
}

static void on_event(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    struct new_capture *capture = (struct new_capture *)relay;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_RESULT)
        on_result(capture, event->result);
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_PROGRESS && capture->wants_lines)
        lines_send(&capture->lines, message);
    else
        relay_pull(relay);
}

static void end_lines(struct new_capture *capture, sonde_err err, const struct sonde_diag *diag) {
    struct sonde_buf last = {0};
    char base[FORWARDED_PREFIX_SIZE];
    if (err) {
        lines_end_with_status(&capture->lines, err, sonde_diag_text(diag, err));
        return;
    }
    reply_base(capture->lines.relay.request, base);
    sonde_buf_printf(&last, "{\"location\":\"%s/v1/captures/%llu\",\"capture\":", base,
                     (unsigned long long)capture->id);
    sonde_buf_append(&last, capture->json.data, capture->json.len);
    sonde_buf_putc(&last, '}');
    lines_end(&capture->lines, sonde_buf_slice(&last));
    sonde_buf_finish(&last);
}

static void answer_created(struct new_capture *capture) {
    char base[FORWARDED_PREFIX_SIZE], location[FORWARDED_PREFIX_SIZE + 64];
    reply_base(capture->lines.relay.request, base);
    snprintf(location, sizeof location, "%s/v1/captures/%llu", base,
             (unsigned long long)capture->id);
    struct http_answer answer = {.status = 201,
                                 .content_type = REPLY_JSON,
                                 .headers = {{"location", location}},
                                 .header_count = 1};
    sonde_buf_putc(&capture->json, '\n');
    http_answer(relay_take_request(&capture->lines.relay), &answer,
                sonde_buf_slice(&capture->json));
}

static void on_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    struct new_capture *capture = (struct new_capture *)relay;
    if (!err && !capture->id) {
        err = SONDE_IO;
        diag = &capture->not_saved;
    }
    if (capture->lines.started || (capture->wants_lines && !err))
        end_lines(capture, err, diag);
    else if (err)
        relay_refuse(relay, err, diag);
    else
        answer_created(capture);
}

static void finish(struct relay *relay) {
    struct new_capture *capture = (struct new_capture *)relay;
    sonde_buf_finish(&capture->json);
    lines_finish(relay);
}

static sonde_err read_note(const struct query *query, char note[MAX_NOTE + 1],
                           struct sonde_diag *diag) {
    struct sonde_slice text;
    if (!query_get(query, "note", &text))
        return SONDE_OK;
    if (text.len > MAX_NOTE || memchr(text.data, 0, text.len))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "note: must have at most %d bytes and no NUL", MAX_NOTE);
    memcpy(note, text.data, text.len);
    return SONDE_OK;
}

/* The request's parameters. `frequency` and `mode` are for CPU, `sample_bytes` for allocations. */
struct capture_options {
    bool is_allocs;
    uint64_t seconds, frequency, sample_bytes;
    struct cpu_mode mode;
    char note[MAX_NOTE + 1];
};

static sonde_err read_kind(const struct query *query, bool *is_allocs, struct sonde_diag *diag) {
    struct sonde_slice kind;
    char quoted[QUERY_QUOTED_SIZE];
    if (!query_get(query, "kind", &kind) || sonde_slice_equals(kind, "cpu"))
        return SONDE_OK;
    *is_allocs = sonde_slice_equals(kind, "allocs");
    return *is_allocs ? SONDE_OK
                      : sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                                   "kind: \"%.190s\" is not one of cpu, allocs",
                                   query_quote(kind, quoted));
}

static sonde_err read_options(const struct query *query, struct capture_options *options,
                              struct sonde_diag *diag) {
    *options = (struct capture_options){.seconds = DEFAULT_SECONDS, .frequency = DEFAULT_HZ};
    sonde_err err = read_kind(query, &options->is_allocs, diag);
    if (!err)
        err = cpu_params_read_times(query, &options->seconds, &options->frequency, diag);
    if (!err)
        err = cpu_params_read_mode(query, &options->mode, diag);
    if (!err)
        err = cpu_params_read_event(query, &options->mode, diag);
    if (!err)
        err = query_whole(query, "interval", 1, MAX_SAMPLE_BYTES, &options->sample_bytes, diag);
    if (!err && options->is_allocs)
        err = alloc_params_check("seconds", (double)options->seconds, "interval",
                                 options->sample_bytes == 1, diag);
    return err ? err : read_note(query, options->note, diag);
}

static void take_cpu(struct new_capture *capture, struct capture_options *options,
                     Sonde__V1__TargetSelector *selector, Sonde__V1__Rendering *rendering) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    request.target = selector;
    request.rendering = rendering;
    request.duration_ms = (uint32_t)options->seconds * 1000;
    request.frequency_hz = (uint32_t)options->frequency;
    request.mode = options->mode.mode;
    request.source = options->mode.source;
    request.max_overhead = options->mode.max_overhead;
    request.event = (char *)(uintptr_t)options->mode.event;
    request.period = options->mode.period;
    request.locks = options->mode.locks;
    request.keep = true;
    request.note = options->note;
    request.no_progress = !capture->wants_lines;
    relay_call(&capture->lines.relay, &client_capture_cpu, &request.base,
               request.duration_ms + PROFILE_GRACE_MS);
}

static void take_allocs(struct new_capture *capture, struct capture_options *options,
                        Sonde__V1__TargetSelector *selector, Sonde__V1__Rendering *rendering) {
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    request.target = selector;
    request.rendering = rendering;
    request.duration_ms = (uint32_t)options->seconds * 1000;
    request.sample_bytes = options->sample_bytes;
    request.keep = true;
    request.note = options->note;
    request.no_progress = !capture->wants_lines;
    relay_call(&capture->lines.relay, &client_capture_allocs, &request.base,
               request.duration_ms + PROFILE_GRACE_MS);
}

static void take_capture(const struct request_context *context) {
    static const struct relay_events events = {on_event, on_end, finish};
    struct sonde_diag diag = {0};
    struct capture_options options;
    sonde_err err = read_options(&context->query, &options, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = SONDE__V1__FORMAT__TEXT_TOP; /* the smallest: it is discarded */
    struct new_capture *capture = relay_create(context, sizeof *capture, &events);
    capture->wants_lines = negotiate_names_type(context->headers.accept, LINES_TYPE);
    if (options.is_allocs)
        take_allocs(capture, &options, &selector, &rendering);
    else
        take_cpu(capture, &options, &selector, &rendering);
}

void handle_v1_captures(const struct request_context *context) {
    if (context->method == METHOD_POST)
        take_capture(context);
    else
        list_captures(context);
}
