/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request/profile_answer.h"

#include "gateway/request/formats.h"
#include "gateway/request/reply.h"

#include <stdio.h>
#include <string.h>

struct capture {
    struct relay relay;
    struct capture_form form;
    bool started;
    uint64_t size, sent;
};

static bool is_svg(int format) {
    return format == SONDE__V1__FORMAT__SVG_FLAMEGRAPH ||
           format == SONDE__V1__FORMAT__SVG_CALLGRAPH;
}

static sonde_err refuse_output(struct sonde_diag *diag, struct sonde_slice output,
                               enum format_family offered) {
    char quoted[QUERY_QUOTED_SIZE];
    struct sonde_buf list = {0};
    format_append_list(&list, offered);
    sonde_err err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "output: \"%.190s\" is not one of %s",
                               query_quote(output, quoted), list.data);
    sonde_buf_finish(&list);
    return err;
}

static bool wants_pprof(const struct visit *visit, const struct profile_setup *setup) {
    if (!(setup->flags & PROFILE_NEGOTIATES))
        return false;
    return setup->offered == FORMATS_HEAP ? negotiate_heap_is_pprof(&visit->headers)
                                          : negotiate_profile(&visit->headers) == NEGOTIATE_PROTO;
}

static sonde_err choose_format(const struct visit *visit, const struct profile_setup *setup,
                               int *format, struct sonde_diag *diag) {
    struct sonde_slice output;
    if (query_get(&visit->query, "output", &output)) {
        const struct format_info *info = format_find(output, setup->offered);
        if (!info)
            return refuse_output(diag, output, setup->offered);
        *format = info->format;
    } else if (wants_pprof(visit, setup)) {
        *format = SONDE__V1__FORMAT__PPROF;
    }
    return SONDE_OK;
}

sonde_err capture_choose(const struct visit *visit, const struct profile_setup *setup,
                         int default_format, struct capture_form *form, struct sonde_diag *diag) {
    *form = (struct capture_form){.format = default_format};
    sonde_err err = choose_format(visit, setup, &form->format, diag);
    if (err)
        return err;
    const struct format_info *info = format_of(form->format);
    form->media_type = info->media_type;
    if (form->format == SONDE__V1__FORMAT__PPROF && !(setup->flags & PROFILE_GZIP_BODY)) {
        form->coded = negotiate_lists_coding(visit->headers.accept_encoding, "gzip");
        form->raw = !form->coded;
    }
    if (setup->file && info->is_file)
        form->disposition =
            is_svg(form->format) && negotiate_is_browser(&visit->headers) ? "inline" : setup->file;
    if (is_svg(form->format))
        form->policy = visit->gateway->svg_policy;
    return SONDE_OK;
}

/* GreptimeDB's paths answer a query that does not parse in its framework's words, as plain text. */
static bool refuse_query(struct visit *visit, const char *reason) {
    char text[400];
    snprintf(text, sizeof text, "Failed to deserialize query string: %s", reason);
    reply_text(visit->request, 400, text);
    return false;
}

bool capture_read_form(struct visit *visit, const struct profile_setup *setup, int default_format,
                       struct capture_form *form) {
    struct sonde_diag diag = {0};
    bool is_strict = setup->flags & PROFILE_STRICT;
    if (is_strict && query_occurrences(&visit->query, "output") > 1)
        return refuse_query(visit, "duplicate field `output`");
    sonde_err err = capture_choose(visit, setup, default_format, form, &diag);
    if (err && is_strict)
        return refuse_query(visit, sonde_diag_text(&diag, err));
    if (err)
        reply_error(visit->request, visit->family, err, &diag);
    return !err;
}

Sonde__V1__Rendering capture_rendering(const struct capture_form *form) {
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = (Sonde__V1__Format)form->format;
    rendering.raw = form->raw;
    return rendering;
}

static void add(struct http_answer *answer, const char *name, const char *value) {
    answer->headers[answer->header_count++] = (struct http_header){name, value};
}

static struct http_answer answer_of(const struct capture_form *form) {
    struct http_answer answer = {
        .status = 200,
        .content_type = form->media_type,
        .content_security_policy = form->policy,
        .no_gzip = form->format == SONDE__V1__FORMAT__PPROF,
    };
    if (form->disposition)
        add(&answer, "content-disposition", form->disposition);
    if (form->raw || form->coded)
        add(&answer, "vary", "Accept-Encoding");
    if (form->coded)
        add(&answer, "content-encoding", "gzip");
    return answer;
}

/* Everything that came has been sent and the call has ended. */
static void finish_body(struct capture *capture, bool good) {
    struct http_request *request = relay_take_request(&capture->relay);
    if (good && capture->sent == capture->size)
        http_stream_end(request);
    else
        http_stream_cut(request);
}

static void on_ready(void *context) {
    struct capture *capture = context;
    relay_pull(&capture->relay);
}

static void begin_body(struct capture *capture, const Sonde__V1__ResultStart *result) {
    struct http_answer answer = answer_of(&capture->form);
    capture->started = true;
    capture->size = result->size_bytes;
    http_request_note(capture->relay.request, "samples=%llu dropped=%llu truncated=%llu",
                      (unsigned long long)result->samples, (unsigned long long)result->dropped,
                      (unsigned long long)result->truncated);
    http_stream_start(capture->relay.request, &answer, result->size_bytes, on_ready, capture);
    relay_pull(&capture->relay);
}

static void drop_chunk(void *chunk) {
    client_chunk_destroy(chunk);
}

/* Whether len more bytes belong to the body. A service that sends more than it announced is cut
 * off: over HTTP/1.1 the client would take the surplus for its next answer. */
static bool may_send(struct capture *capture, size_t len) {
    if (!capture->started || len == 0) {
        relay_pull(&capture->relay);
        return false;
    }
    capture->sent += len;
    if (capture->sent <= capture->size)
        return true;
    client_call_cancel(capture->relay.call);
    http_stream_cut(relay_take_request(&capture->relay));
    return false;
}

static void on_chunk(struct relay *relay, struct client_chunk *chunk) {
    struct capture *capture = (struct capture *)relay;
    if (may_send(capture, chunk->len))
        http_stream_lend(relay->request, chunk->pieces, chunk->count, drop_chunk, chunk);
    else
        client_chunk_destroy(chunk);
}

static void on_event(struct relay *relay, const ProtobufCMessage *message) {
    struct capture *capture = (struct capture *)relay;
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    switch (event->event_case) {
    case SONDE__V1__CAPTURE_EVENT__EVENT_RESULT:
        if (!capture->started)
            begin_body(capture, event->result);
        break;
    case SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK:
        if (may_send(capture, event->chunk.len))
            http_stream_send(relay->request,
                             (struct sonde_slice){(char *)event->chunk.data, event->chunk.len});
        break;
    default:
        relay_pull(relay);
    }
}

static void on_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    struct capture *capture = (struct capture *)relay;
    if (capture->started)
        finish_body(capture, err == SONDE_OK);
    else if (capture->form.refuse)
        capture->form.refuse(relay, &capture->form, err ? err : SONDE_PROTOCOL, diag);
    else
        relay_refuse(relay, err ? err : SONDE_PROTOCOL, diag);
}

static void on_found(struct relay *relay) {
    struct capture *capture = (struct capture *)relay;
    struct http_answer answer = answer_of(&capture->form);
    http_answer(relay_take_request(relay), &answer, (struct sonde_slice){"", 0});
}

static const struct relay_events events = {on_event, on_end, NULL};

struct relay *capture_create(struct visit *visit, const struct capture_form *form) {
    struct capture *capture = relay_create(visit, sizeof *capture, &events);
    capture->form = *form;
    return &capture->relay;
}

void capture_call(struct relay *relay, const struct client_method *method,
                  const ProtobufCMessage *request, uint32_t deadline_ms) {
    relay->events = &events;
    relay->on_chunk = on_chunk;
    relay_call(relay, method, request, deadline_ms);
}

const struct capture_form *capture_form_of(const struct relay *relay) {
    return &((const struct capture *)relay)->form;
}

void capture_check(struct visit *visit, const struct capture_form *form) {
    relay_check_target(capture_create(visit, form), on_found);
}

void capture_start(struct visit *visit, const struct capture_form *form,
                   const struct client_method *method, const ProtobufCMessage *request,
                   uint32_t deadline_ms) {
    if (visit->head)
        capture_check(visit, form);
    else
        capture_call(capture_create(visit, form), method, request, deadline_ms);
}

sonde_err capture_read_times(const struct query *query, uint64_t *seconds, uint64_t *frequency,
                             struct sonde_diag *diag) {
    sonde_err err = query_whole(query, "seconds", 1, 3600, seconds, diag);
    return err ? err : query_whole(query, "frequency", 1, 10000, frequency, diag);
}

static sonde_err read_mode(const struct query *query, int *mode, struct sonde_diag *diag) {
    static const char *const names[] = {
        [SONDE__V1__CPU_MODE__CPU] = "cpu",
        [SONDE__V1__CPU_MODE__WALL] = "wall",
        [SONDE__V1__CPU_MODE__OFF_CPU] = "off-cpu",
    };
    char quoted[QUERY_QUOTED_SIZE];
    struct sonde_slice value;
    if (!query_get(query, "mode", &value))
        return SONDE_OK;
    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++) {
        *mode = i;
        if (sonde_slice_equals(value, names[i]))
            return SONDE_OK;
    }
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "mode: \"%s\" is not one of cpu, wall, off-cpu",
                      query_quote(value, quoted));
}

sonde_err capture_read_mode(const struct query *query, struct capture_mode *mode,
                            struct sonde_diag *diag) {
    *mode = (struct capture_mode){0};
    sonde_err err = read_mode(query, &mode->mode, diag);
    return err ? err : query_share(query, "max_overhead", 0.0001, 1, &mode->max_overhead, diag);
}
