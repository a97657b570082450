/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/mcp/call.h"

#include "api/json/json.h"
#include "gateway/mcp/arguments.h"
#include "gateway/mcp/completeness.h"
#include "gateway/reply/reply.h"
#include "proto/sonde/v1/history.pb-c.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* ---- The list of running calls ---- */

static void enlist(struct mcp_call *call) {
    struct gateway *gateway = call->relay.gateway;
    call->next = gateway->tool_calls;
    call->self = &gateway->tool_calls;
    if (call->next)
        call->next->self = &call->next;
    gateway->tool_calls = call;
}

static void delist(struct mcp_call *call) {
    *call->self = call->next;
    if (call->next)
        call->next->self = call->self;
}

void mcp_call_cancel(struct gateway *gateway, const char *session, const char *id) {
    for (struct mcp_call *call = gateway->tool_calls; call && *session; call = call->next) {
        if (strcmp(call->session, session) != 0 || strcmp(call->id, id) != 0 || !call->relay.call)
            continue;
        call->is_cancelled = true;
        client_call_cancel(call->relay.call);
        return;
    }
}

void mcp_session(const struct request_context *context, char session[MCP_SESSION_SIZE]) {
    struct sonde_slice header = http_request_header(context->request, "mcp-session-id");
    session[0] = 0;
    if (header.data && header.len < MCP_SESSION_SIZE && !memchr(header.data, 0, header.len))
        snprintf(session, MCP_SESSION_SIZE, "%.*s", (int)header.len, header.data);
}

/* ---- Answers ---- */

static void answer(struct mcp_call *call, bool is_error) {
    static const struct http_answer as = {.status = 200, .content_type = REPLY_JSON};
    struct sonde_buf body = {0};
    char word[MCP_WORD_SIZE];
    mcp_text_word(word);
    sonde_buf_printf(&body,
                     "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":"
                     "\"text\",\"text\":",
                     call->id);
    mcp_text_write(&call->text, word, &body);
    sonde_buf_printf(&body, "}],\"isError\":%s}}", is_error ? "true" : "false");
    http_answer_take(relay_take_request(&call->relay), &as, &body);
}

/* What to do next, by error. */
static const char *advice(const struct mcp_call *call, sonde_err err) {
    switch (err) {
    case SONDE_TARGET_NOT_FOUND:
    case SONDE_TARGET_AMBIGUOUS:
        return "The tool targets lists processes; name one by its pid.\n";
    case SONDE_UNAVAILABLE:
        return call->tool->if_unavailable
                   ? call->tool->if_unavailable
                   : "sonded may not be running; the tool why_no_data says more.\n";
    case SONDE_NOT_AVAILABLE:
    case SONDE_NO_CLOCK:
    case SONDE_PERMISSION_DENIED:
        return "The tool why_no_data says what this machine allows.\n";
    default:
        return "";
    }
}

void mcp_end(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    struct mcp_text *text = &call->text;
    if (err) {
        const char *sentence = sonde_diag_text(diag, err);
        mcp_text_finish(text);
        *text = (struct mcp_text){0};
        sonde_buf_printf(&text->head, "The call failed (%s). Sonde's message:\n",
                         sonde_error_info(err)->reason);
        mcp_text_put_name(text, sentence, MCP_LINE_BYTES);
        sonde_buf_puts(&text->tail, advice(call, err));
    }
    answer(call, err != SONDE_OK);
}

/* The client's own values may be in the sentence. */
static void refuse(struct mcp_call *call, const struct sonde_diag *diag) {
    mcp_end(call, SONDE_INVALID_ARGUMENT, diag);
}

/* ---- RPCs ---- */

static void on_message(struct relay *relay, const ProtobufCMessage *message) {
    struct mcp_call *call = (struct mcp_call *)relay;
    if (call->on_message)
        call->on_message(call, message);
    if (call->is_streaming)
        relay_pull(relay);
}

static void on_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    static const struct http_answer accepted = {.status = 202};
    struct mcp_call *call = (struct mcp_call *)relay;
    mcp_then *then = call->then ? call->then : mcp_end;
    if (call->is_cancelled)
        http_answer(relay_take_request(relay), &accepted, (struct sonde_slice){"", 0});
    else
        then(call, err, diag);
}

static void finish(struct relay *relay) {
    struct mcp_call *call = (struct mcp_call *)relay;
    if (call->tool->finish)
        call->tool->finish(call);
    delist(call);
    query_finish(&call->arguments);
    mcp_text_finish(&call->text);
    sonde_arena_finish(&call->arena);
}

void mcp_ask(struct mcp_call *call, const struct client_method *method,
             const ProtobufCMessage *request, uint32_t deadline_ms, mcp_on_message *on_answer,
             mcp_then *then) {
    call->on_message = on_answer;
    call->then = then;
    call->is_streaming = method->streaming;
    relay_call(&call->relay, method, request, deadline_ms);
}

static void on_event(struct mcp_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__CaptureEvent *event = (const void *)message;
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_RESULT)
        mcp_put_result(&call->text, event->result);
    if (event->event_case == SONDE__V1__CAPTURE_EVENT__EVENT_CHUNK)
        mcp_text_add(&call->text, (const char *)event->chunk.data, event->chunk.len);
}

void mcp_ask_text(struct mcp_call *call, const struct client_method *method,
                  const ProtobufCMessage *request, uint32_t deadline_ms) {
    mcp_ask(call, method, request, deadline_ms, on_event, NULL);
}

/* ---- Start ---- */

void mcp_call_start(const struct request_context *context, const struct mcp_tool *tool,
                    struct mcp_message *message) {
    static const struct relay_events events = {on_message, on_end, finish};
    struct mcp_call *call = relay_create(context, tool->size ? tool->size : sizeof *call, &events);
    struct sonde_diag diag = {0};
    mcp_session(context, call->session);
    call->tool = tool;
    call->id = message->id;
    call->arena = message->arena;
    call->arguments = message->arguments;
    message->arena = (struct sonde_arena){0};
    message->arguments = (struct query){0};
    enlist(call);
    http_request_note(context->request, "tool=%s", tool->name);
    sonde_err err = mcp_arguments_check(tool, &call->arguments, &diag);
    if (!err)
        err = tool->start(call, &diag);
    if (err)
        refuse(call, &diag);
    relay_settle(&call->relay);
}

/* ---- Arguments ---- */

bool mcp_is_said(const struct mcp_call *call, const char *name) {
    struct sonde_slice value;
    return query_get(&call->arguments, name, &value);
}

sonde_err mcp_whole(const struct mcp_call *call, const char *name, uint64_t *value,
                    struct sonde_diag *diag) {
    const struct mcp_argument *row = mcp_argument_find(call->tool, sonde_slice_of(name));
    return query_whole(&call->arguments, name, row->low, row->high, value, diag);
}

sonde_err mcp_string(struct mcp_call *call, const char *name, char **text,
                     struct sonde_diag *diag) {
    struct sonde_slice value = {"", 0};
    (void)query_get(&call->arguments, name, &value);
    *text = sonde_arena_dup(&call->arena, value.data, value.len);
    return *text ? SONDE_OK : sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
}

sonde_err mcp_read_target(struct mcp_call *call, struct sonde_diag *diag) {
    struct sonde_slice value;
    char quoted[QUERY_QUOTED_SIZE];
    struct target_choice *target = &call->target;
    if (!query_get(&call->arguments, "target", &value) || path_is_pid(value, &target->pid) ||
        path_read_name(value, target))
        return SONDE_OK;
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "target: \"%s\" is not a pid, a name, @all or @all:NAME",
                      query_quote(value, quoted));
}

void mcp_put_time(struct sonde_buf *out, int64_t unix_ns) {
    time_t seconds = (time_t)(unix_ns / 1000000000);
    char text[40];
    struct tm parts;
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &parts));
    sonde_buf_puts(out, text);
}
