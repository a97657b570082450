/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/captures: the list of what is kept, and POST, which takes a capture and keeps it. The answer
 * to POST is 201 and Location when the capture has ended, or, for who accepts lines, its progress
 * and then a line that names it. */
#include "api/json/json.h"
#include "gateway/request/json_lines.h"
#include "gateway/request/profile_answer.h"
#include "gateway/request/reply.h"

#include <stdio.h>
#include <string.h>

#define DEADLINE_MS     5000
#define DEFAULT_SECONDS 10
#define DEFAULT_HZ      99
#define MAX_NOTE        200
#define MAX_SAMPLE      1073741824u

/* ---- The list ---- */

static void on_list(struct relay *relay, const ProtobufCMessage *message) {
    struct sonde_buf text = {0};
    sonde_json_message(&text, message);
    sonde_buf_putc(&text, '\n');
    reply_bytes(relay_take_request(relay), REPLY_JSON, sonde_buf_slice(&text));
    sonde_buf_finish(&text);
}

static void list(struct visit *visit) {
    static const struct relay_events events = {.on_message = on_list};
    Sonde__V1__ListCapturesRequest request = SONDE__V1__LIST_CAPTURES_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&visit->target);
    request.target = &selector;
    relay_call(relay_create(visit, sizeof(struct relay), &events), &client_list_captures,
               &request.base, DEADLINE_MS);
}

/* ---- Taking one ---- */

struct take {
    struct lines lines;
    bool wants_lines;
    uint64_t id; /* 0: not kept */
    struct sonde_buf capture;
    struct sonde_diag why_not;
};

static void on_result(struct take *take, const Sonde__V1__ResultStart *result) {
    take->id = result->capture_id;
    if (result->capture)
        sonde_json_message(&take->capture, &result->capture->base);
    snprintf(take->why_not.text, sizeof take->why_not.text,
             "the capture was taken, but it is not kept: %s", result->keep_error);
    http_request_note(take->lines.relay.request, "samples=%llu dropped=%llu kept=%llu",
                      (unsigned long long)result->samples, (unsigned long long)result->dropped,
                      (unsigned long long)result->capture_id);
}

static void on_event(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    struct take *take = (struct take *)relay;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_RESULT)
        on_result(take, event->result);
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_PROGRESS && take->wants_lines)
        lines_send(&take->lines, message);
    else
        relay_pull(relay);
}

static void end_lines(struct take *take, sonde_err err, const struct sonde_diag *diag) {
    struct sonde_buf last = {0};
    if (err) {
        lines_end_with_status(&take->lines, err, sonde_diag_text(diag, err));
        return;
    }
    sonde_buf_printf(
        &last, "{\"location\":\"/v1/captures/%llu\",\"capture\":", (unsigned long long)take->id);
    sonde_buf_append(&last, take->capture.data, take->capture.len);
    sonde_buf_putc(&last, '}');
    lines_end(&take->lines, sonde_buf_slice(&last));
    sonde_buf_finish(&last);
}

static void answer_created(struct take *take) {
    char location[64];
    snprintf(location, sizeof location, "/v1/captures/%llu", (unsigned long long)take->id);
    struct http_answer answer = {.status = 201,
                                 .content_type = REPLY_JSON,
                                 .headers = {{"location", location}},
                                 .header_count = 1};
    sonde_buf_putc(&take->capture, '\n');
    http_answer(relay_take_request(&take->lines.relay), &answer, sonde_buf_slice(&take->capture));
}

static void on_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    struct take *take = (struct take *)relay;
    if (!err && !take->id) {
        err = SONDE_IO;
        diag = &take->why_not;
    }
    if (take->lines.started || (take->wants_lines && !err))
        end_lines(take, err, diag);
    else if (err)
        relay_refuse(relay, err, diag);
    else
        answer_created(take);
}

static void finish(struct relay *relay) {
    struct take *take = (struct take *)relay;
    sonde_buf_finish(&take->capture);
    lines_finish(relay);
}

static sonde_err read_note(const struct query *query, char note[MAX_NOTE + 1],
                           struct sonde_diag *diag) {
    struct sonde_slice text;
    if (!query_get(query, "note", &text))
        return SONDE_OK;
    if (text.len > MAX_NOTE || memchr(text.data, 0, text.len))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "note: it may have at most %d bytes, and no NUL", MAX_NOTE);
    memcpy(note, text.data, text.len);
    return SONDE_OK;
}

/* What both kinds are asked with; the rest are zeros or the kind's own. */
struct wish {
    bool allocations;
    uint64_t seconds, frequency, sample_bytes;
    struct capture_mode mode;
    char note[MAX_NOTE + 1];
};

static sonde_err read_kind(const struct query *query, bool *allocations, struct sonde_diag *diag) {
    struct sonde_slice kind;
    char quoted[QUERY_QUOTED_SIZE];
    if (!query_get(query, "kind", &kind) || sonde_slice_equals(kind, "cpu"))
        return SONDE_OK;
    *allocations = sonde_slice_equals(kind, "allocs");
    return *allocations ? SONDE_OK
                        : sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                                     "kind: \"%.190s\" is not one of cpu, allocs",
                                     query_quote(kind, quoted));
}

static sonde_err read_wish(const struct query *query, struct wish *wish, struct sonde_diag *diag) {
    *wish = (struct wish){.seconds = DEFAULT_SECONDS, .frequency = DEFAULT_HZ};
    sonde_err err = read_kind(query, &wish->allocations, diag);
    if (!err)
        err = capture_read_times(query, &wish->seconds, &wish->frequency, diag);
    if (!err)
        err = capture_read_mode(query, &wish->mode, diag);
    if (!err)
        err = query_whole(query, "interval", 1, MAX_SAMPLE, &wish->sample_bytes, diag);
    return err ? err : read_note(query, wish->note, diag);
}

static void take_cpu(struct take *take, struct wish *wish, Sonde__V1__TargetSelector *selector,
                     Sonde__V1__Rendering *rendering) {
    Sonde__V1__CaptureCpuRequest request = SONDE__V1__CAPTURE_CPU_REQUEST__INIT;
    request.target = selector;
    request.rendering = rendering;
    request.duration_ms = (uint32_t)wish->seconds * 1000;
    request.frequency_hz = (uint32_t)wish->frequency;
    request.mode = wish->mode.mode;
    request.max_overhead = wish->mode.max_overhead;
    request.keep = true;
    request.note = wish->note;
    request.no_progress = !take->wants_lines;
    relay_call(&take->lines.relay, &client_capture_cpu, &request.base,
               request.duration_ms + CAPTURE_GRACE_MS);
}

static void take_allocations(struct take *take, struct wish *wish,
                             Sonde__V1__TargetSelector *selector, Sonde__V1__Rendering *rendering) {
    Sonde__V1__CaptureAllocsRequest request = SONDE__V1__CAPTURE_ALLOCS_REQUEST__INIT;
    request.target = selector;
    request.rendering = rendering;
    request.duration_ms = (uint32_t)wish->seconds * 1000;
    request.sample_bytes = wish->sample_bytes;
    request.keep = true;
    request.note = wish->note;
    request.no_progress = !take->wants_lines;
    relay_call(&take->lines.relay, &client_capture_allocs, &request.base,
               request.duration_ms + CAPTURE_GRACE_MS);
}

static void take(struct visit *visit) {
    static const struct relay_events events = {on_event, on_end, finish};
    struct sonde_diag diag = {0};
    struct wish wish;
    sonde_err err = read_wish(&visit->query, &wish, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    Sonde__V1__TargetSelector selector = relay_selector(&visit->target);
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = SONDE__V1__FORMAT__TEXT_TOP; /* small: nobody looks at it */
    struct take *taking = relay_create(visit, sizeof *taking, &events);
    taking->wants_lines = negotiate_names_type(visit->headers.accept, LINES_TYPE);
    if (wish.allocations)
        take_allocations(taking, &wish, &selector, &rendering);
    else
        take_cpu(taking, &wish, &selector, &rendering);
}

void handle_v1_captures(struct visit *visit) {
    if (visit->method == METHOD_POST)
        take(visit);
    else
        list(visit);
}
