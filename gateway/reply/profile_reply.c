/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/reply/profile_reply.h"

#include "api/clock_name.h"
#include "gateway/reply/reply.h"
#include "gateway/request/formats.h"

#include "proto/sonde/v1/history.pb-c.h"

#include <stdio.h>

#define CHECK_DEADLINE_MS 5000

/* ---- The format ---- */

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

static sonde_err refuse_extension(struct sonde_diag *diag,
                                  const struct sonde_format_info *extension,
                                  enum format_family offered) {
    struct sonde_buf list = {0};
    format_append_extensions(&list, offered);
    sonde_err err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                               "%s is not a format of this path; it can end in %s",
                               extension->extension, list.data);
    sonde_buf_finish(&list);
    return err;
}

static bool wants_pprof(const struct request_context *context, const struct profile_setup *setup) {
    if (!(setup->flags & PROFILE_NEGOTIATES))
        return false;
    return setup->offered == FORMATS_HEAP ? negotiate_heap_is_pprof(&context->headers)
                                          : negotiate_profile(&context->headers) == NEGOTIATE_PROTO;
}

static sonde_err choose_id(const struct request_context *context, const struct profile_setup *setup,
                           struct profile_format *format, struct sonde_diag *diag) {
    const struct sonde_format_info *info = context->extension;
    struct sonde_slice output;
    if (info && !(info->offered & (unsigned)setup->offered))
        return refuse_extension(diag, info, setup->offered);
    if (query_get(&context->query, "output", &output)) {
        info = format_find(output, setup->offered, &format->split_threads);
        if (!info)
            return refuse_output(diag, output, setup->offered);
        if (context->extension && info != context->extension)
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                              "the path ends in %s, but output=%s is another format: leave one out",
                              context->extension->extension, info->output);
    }
    if (info) {
        format->id = (int)info->format;
    } else if (wants_pprof(context, setup)) {
        format->id = SONDE__V1__FORMAT__PPROF;
    }
    return SONDE_OK;
}

static sonde_err read_threads(const struct query *query, bool *split, struct sonde_diag *diag) {
    char quoted[QUERY_QUOTED_SIZE];
    struct sonde_slice value;
    if (!query_get(query, "threads", &value))
        return SONDE_OK;
    *split = sonde_slice_equals(value, "split");
    if (*split || sonde_slice_equals(value, "merged"))
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "threads: \"%.190s\" is not merged or split",
                      query_quote(value, quoted));
}

sonde_err profile_format_choose(const struct request_context *context,
                                const struct profile_setup *setup, int default_format,
                                struct profile_format *format, struct sonde_diag *diag) {
    const char *file = context->extension && setup->file ? "attachment" : setup->file;
    bool is_gzip = context->extension || (setup->flags & PROFILE_GZIP_BODY);
    *format = (struct profile_format){.id = default_format};
    sonde_err err = choose_id(context, setup, format, diag);
    if (!err)
        err = read_threads(&context->query, &format->split_threads, diag);
    if (!err)
        err = query_flag(&context->query, "allocator_frames", &format->keep_allocator_frames, diag);
    if (!err)
        err = query_flag(&context->query, "hide_idle", &format->hide_idle, diag);
    if (err)
        return err;
    const struct sonde_format_info *info = sonde_format_info((enum sonde_format)format->id);
    format->media_type = format_media_type(info);
    if (format->id == SONDE__V1__FORMAT__PPROF && !is_gzip) {
        format->gzip_coded = negotiate_lists_coding(context->headers.accept_encoding, "gzip");
        format->raw = !format->gzip_coded;
    }
    bool is_inline = is_svg(format->id) && negotiate_is_browser(&context->headers);
    if (file && format_is_file(info))
        format->disposition = is_inline ? "inline" : file;
    if (is_svg(format->id))
        format->policy = context->gateway->svg_policy;
    return SONDE_OK;
}

/* GreptimeDB answers a query that it cannot parse with its framework's sentence, as plain text. */
static bool refuse_query(const struct request_context *context, const char *reason) {
    char text[400];
    snprintf(text, sizeof text, "Failed to deserialize query string: %s", reason);
    reply_text(context->request, 400, text);
    return false;
}

bool profile_format_read(const struct request_context *context, const struct profile_setup *setup,
                         int default_format, struct profile_format *format) {
    struct sonde_diag diag = {0};
    bool is_strict = setup->flags & PROFILE_STRICT;
    if (is_strict && query_occurrences(&context->query, "output") > 1)
        return refuse_query(context, "duplicate field `output`");
    sonde_err err = profile_format_choose(context, setup, default_format, format, &diag);
    if (err && is_strict && !context->extension)
        return refuse_query(context, sonde_diag_text(&diag, err));
    if (err)
        reply_error(context->request, context->family, err, &diag);
    return !err;
}

Sonde__V1__Rendering profile_format_rendering(const struct profile_format *format) {
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = (Sonde__V1__Format)format->id;
    rendering.raw = format->raw;
    rendering.split_threads = format->split_threads;
    rendering.keep_allocator_frames = format->keep_allocator_frames;
    rendering.hide_idle = format->hide_idle;
    return rendering;
}

/* ---- The answer ---- */

static void add_header(struct http_answer *answer, const char *name, const char *value) {
    answer->headers[answer->header_count++] = (struct http_header){name, value};
}

static struct http_answer answer_of(const struct profile_format *format) {
    struct http_answer answer = {
        .status = 200,
        .content_type = format->media_type,
        .content_security_policy = format->policy,
        .no_gzip = format->id == SONDE__V1__FORMAT__PPROF,
    };
    if (format->disposition)
        add_header(&answer, "content-disposition", format->disposition);
    if (format->raw || format->gzip_coded)
        add_header(&answer, "vary", "Accept-Encoding");
    if (format->gzip_coded)
        add_header(&answer, "content-encoding", "gzip");
    return answer;
}

static void on_ready(void *context) {
    struct profile_reply *reply = context;
    relay_pull(&reply->relay);
}

void profile_reply_copy_value(char *out, size_t size, const char *text) {
    size_t len = 0;
    for (; text[len] && len + 1 < size; len++)
        out[len] = text[len] >= ' ' && text[len] <= '~' ? text[len] : '?';
    out[len] = 0;
}

static void add_clock(struct profile_reply *reply, const Sonde__V1__ResultStart *result,
                      struct http_answer *answer) {
    profile_reply_copy_value(reply->clock, sizeof reply->clock, result->clock);
    profile_reply_copy_value(reply->clock_note, sizeof reply->clock_note, result->clock_note);
    if (reply->clock[0])
        add_header(answer, "sonde-source", sonde_clock_is_outside(reply->clock) ? "host" : "guest");
    if (reply->clock[0] && !sonde_clock_is_best(reply->clock))
        add_header(answer, "sonde-clock", reply->clock);
    if (reply->clock_note[0])
        add_header(answer, "sonde-clock-note", reply->clock_note);
}

static void begin_body(struct profile_reply *reply, const Sonde__V1__ResultStart *result) {
    struct http_answer answer = answer_of(&reply->format);
    uint64_t size = result->size_bytes, around;
    reply->started = true;
    reply->size = size;
    if (reply->on_result)
        reply->on_result(reply, result);
    if (reply->completeness[0])
        add_header(&answer, "sonde-completeness", reply->completeness);
    if (reply->silences[0])
        add_header(&answer, "sonde-silences", reply->silences);
    add_clock(reply, result, &answer);
    around = reply->before.len + reply->after.len;
    size = size < HTTP_UNKNOWN - around ? size + around : HTTP_UNKNOWN;
    http_request_note(reply->relay.request, "samples=%llu dropped=%llu truncated=%llu",
                      (unsigned long long)result->samples, (unsigned long long)result->dropped,
                      (unsigned long long)result->truncated);
    http_stream_start(reply->relay.request, &answer, size, on_ready, reply);
    if (reply->before.len)
        http_stream_send(reply->relay.request, sonde_buf_slice(&reply->before));
    else
        relay_pull(&reply->relay);
}

/* Whether len more bytes belong to the body. A service that sends more than it announced is cut
 * off: over HTTP/1.1 the client would take the surplus for its next answer. */
static bool may_send(struct profile_reply *reply, size_t len) {
    if (!reply->started || len == 0) {
        relay_pull(&reply->relay);
        return false;
    }
    reply->sent += len;
    if (reply->sent <= reply->size)
        return true;
    client_call_cancel(reply->relay.call);
    http_stream_cut(relay_take_request(&reply->relay));
    return false;
}

static void destroy_chunk(void *chunk) {
    client_chunk_destroy(chunk);
}

static void on_chunk(struct relay *relay, struct client_chunk *chunk) {
    struct profile_reply *reply = (struct profile_reply *)relay;
    if (may_send(reply, chunk->len))
        http_stream_send_slices(relay->request, chunk->pieces, chunk->count, destroy_chunk, chunk);
    else
        client_chunk_destroy(chunk);
}

static void on_event(struct relay *relay, const ProtobufCMessage *message) {
    struct profile_reply *reply = (struct profile_reply *)relay;
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    switch (event->event_case) {
    case SONDE__V1__CAPTURE_EVENT__EVENT_RESULT:
        if (!reply->started && reply->is_wanted && !reply->is_wanted(reply, event->result))
            client_call_cancel(relay->call);
        else if (!reply->started)
            begin_body(reply, event->result);
        break;
    case SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK:
        if (may_send(reply, event->chunk.len))
            http_stream_send(relay->request,
                             (struct sonde_slice){(char *)event->chunk.data, event->chunk.len});
        break;
    default:
        relay_pull(relay);
    }
}

/* Every chunk has been sent and the call has ended. */
static void end_body(struct profile_reply *reply, bool succeeded) {
    struct http_request *request = relay_take_request(&reply->relay);
    bool is_whole = succeeded && reply->sent == reply->size;
    if (is_whole && reply->after.len)
        http_stream_send(request, sonde_buf_slice(&reply->after));
    if (is_whole)
        http_stream_end(request);
    else
        http_stream_cut(request);
}

static void on_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    struct profile_reply *reply = (struct profile_reply *)relay;
    if (reply->started)
        end_body(reply, err == SONDE_OK);
    else if (reply->refuse)
        reply->refuse(reply, err ? err : SONDE_PROTOCOL, diag);
    else
        relay_refuse(relay, err ? err : SONDE_PROTOCOL, diag);
}

static void finish(struct relay *relay) {
    struct profile_reply *reply = (struct profile_reply *)relay;
    if (reply->finish)
        reply->finish(reply);
    sonde_buf_finish(&reply->before);
    sonde_buf_finish(&reply->after);
}

static const struct relay_events events = {on_event, on_end, finish};

void *profile_reply_create(const struct request_context *context, size_t size,
                           const struct profile_format *format) {
    struct profile_reply *reply = relay_create(context, size, &events);
    reply->format = *format;
    return reply;
}

void profile_reply_call(struct profile_reply *reply, const struct client_method *method,
                        const ProtobufCMessage *request, uint32_t deadline_ms) {
    reply->relay.events = &events;
    reply->relay.on_chunk = on_chunk;
    relay_call(&reply->relay, method, request, deadline_ms);
}

void profile_reply_answer(struct profile_reply *reply, struct sonde_slice body) {
    struct http_answer answer = answer_of(&reply->format);
    http_answer(relay_take_request(&reply->relay), &answer, body);
}

static void answer_head(struct relay *relay) {
    profile_reply_answer((struct profile_reply *)relay, (struct sonde_slice){"", 0});
}

void profile_reply_check_target(struct profile_reply *reply) {
    relay_check_target(&reply->relay, answer_head);
}

static void on_info(struct relay *relay, const ProtobufCMessage *message) {
    answer_head(relay);
}

void profile_reply_check_history(struct profile_reply *reply) {
    static const struct relay_events check = {on_info, on_end, NULL};
    Sonde__V1__GetHistoryInfoRequest request = SONDE__V1__GET_HISTORY_INFO_REQUEST__INIT;
    reply->relay.events = &check;
    relay_call(&reply->relay, &client_get_history_info, &request.base, CHECK_DEADLINE_MS);
}

void profile_reply_start(struct profile_reply *reply, const struct request_context *context,
                         const struct client_method *method, const ProtobufCMessage *request,
                         uint32_t deadline_ms) {
    if (context->head)
        profile_reply_check_target(reply);
    else
        profile_reply_call(reply, method, request, deadline_ms);
}
