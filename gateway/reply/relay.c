/* SPDX-License-Identifier: Apache-2.0
 *
 * The request and the call may end in either order. Every callback enters through one of the
 * functions below, and each of them ends with relay_settle, which frees the relay once both have
 * ended. */
#include "gateway/reply/relay.h"

#include "api/json/json.h"
#include "api/text/time_text.h"
#include "gateway/reply/reply.h"
#include "gateway/reply/target_path.h"
#include "gateway/request/credentials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UNARY_DEADLINE_MS 5000
#define USUAL_JSON_BYTES  1000        /* reserved, so that most answers need one allocation */
#define MAX_LIST          (64u << 10) /* bytes of an error text that lists targets */

static void on_gone(void *context) {
    struct relay *relay = context;
    relay->request = NULL;
    if (relay->call)
        client_call_cancel(relay->call);
    relay_settle(relay);
}

/* Returns the token, which the service checks. A password that is no token of the gateway is that
 * of a proxy's user. */
static char *dup_token(const struct request_context *context) {
    struct sonde_slice header = http_request_header(context->request, "authorization");
    bool is_unknown = context->gateway->tokens && context->token.scopes == 0;
    char bearer[CREDENTIALS_SIZE];
    if ((is_unknown && credentials_are_basic(header)) || !credentials_read(header, bearer))
        return NULL;
    return strdup(bearer + sizeof CREDENTIALS_PREFIX - 1);
}

void *relay_create(const struct request_context *context, size_t size,
                   const struct relay_events *events) {
    struct relay *relay = calloc(1, size);
    if (!relay)
        abort();
    relay->gateway = context->gateway;
    relay->request = context->request;
    relay->events = events;
    relay->finish = events->finish;
    relay->family = context->family;
    relay->target = context->target;
    relay->token = dup_token(context);
    caller_name(context, relay->caller_name);
    relay->caller = (struct client_caller){.token = relay->token,
                                           .is_limited = context->is_limited,
                                           .uid = context->uid,
                                           .name = relay->caller_name};
    relay->gateway->relays++;
    http_request_on_gone(context->request, on_gone, relay);
    return relay;
}

void relay_settle(struct relay *relay) {
    if (relay->request || relay->call || relay->inside)
        return;
    if (relay->finish)
        relay->finish(relay);
    relay->gateway->relays--;
    free(relay->token);
    free(relay);
}

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    struct relay *relay = context;
    if (!relay->request)
        return true; /* the client has gone; the call was cancelled and is about to end */
    relay->inside = true;
    relay->pulled = false;
    if (relay->events->on_message)
        relay->events->on_message(relay, message);
    relay->inside = false;
    return relay->pulled;
}

static bool on_chunk(void *context, struct client_call *call, struct client_chunk *chunk) {
    struct relay *relay = context;
    if (!relay->request) {
        client_chunk_destroy(chunk);
        return true;
    }
    relay->inside = true;
    relay->pulled = false;
    relay->on_chunk(relay, chunk);
    relay->inside = false;
    return relay->pulled;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct relay *relay = context;
    relay->call = NULL;
    relay->inside = true;
    if (relay->request && relay->events->on_end)
        relay->events->on_end(relay, err, diag);
    else if (relay->request && err)
        relay_refuse(relay, err, diag);
    else if (relay->request)
        relay_refuse(relay, SONDE_PROTOCOL, NULL);
    relay->inside = false;
    relay_settle(relay);
}

static struct client *client_for(const struct gateway *gateway,
                                 const struct client_method *method) {
    static const char history[] = "/sonde.v1.History/";
    bool is_history = strncmp(method->path, history, sizeof history - 1) == 0;
    return is_history ? gateway->history : gateway->client;
}

void relay_call(struct relay *relay, const struct client_method *method,
                const ProtobufCMessage *request, uint32_t deadline_ms) {
    const struct client_callbacks callbacks = {on_message, on_end,
                                               relay->on_chunk ? on_chunk : NULL};
    relay->call = client_call_start(client_for(relay->gateway, method), method, request,
                                    deadline_ms, &relay->caller, &callbacks, relay);
    if (!relay->call)
        abort();
}

void relay_pull(struct relay *relay) {
    if (relay->inside)
        relay->pulled = true;
    else if (relay->call)
        client_call_next(relay->call);
}

struct http_request *relay_take_request(struct relay *relay) {
    struct http_request *request = relay->request;
    http_request_on_gone(request, NULL, NULL);
    relay->request = NULL;
    if (relay->call && !relay->inside)
        client_call_cancel(relay->call);
    return request;
}

void relay_answer_json(struct relay *relay, const ProtobufCMessage *message) {
    static const struct http_answer answer = {.status = 200, .content_type = REPLY_JSON};
    struct sonde_buf text = {0};
    sonde_buf_extend(&text, USUAL_JSON_BYTES);
    text.len = 0;
    sonde_json_message(&text, message);
    sonde_buf_putc(&text, '\n');
    http_answer_take(relay_take_request(relay), &answer, &text);
}

Sonde__V1__TargetSelector relay_selector(const struct target_choice *target) {
    Sonde__V1__TargetSelector selector = SONDE__V1__TARGET_SELECTOR__INIT;
    selector.name = (char *)(uintptr_t)target->name;
    selector.pid = target->pid;
    selector.all = target->all;
    return selector;
}

static void append_target(struct sonde_buf *text, const Sonde__V1__Target *target) {
    char since[SONDE_TIME_BYTES], quoted[QUERY_QUOTED_SIZE];
    sonde_buf_printf(text, "\n%s %d %s", query_quote(sonde_slice_of(target->name), quoted),
                     target->pid, sonde_time_utc(target->start_unix_ns, since));
}

/* Whether a target is one of those that the request may mean. */
static bool may_mean(const struct relay *relay, const Sonde__V1__Target *target) {
    return !relay->target.name[0] || strcmp(target->name, relay->target.name) == 0;
}

/* The first one; *count is their number. */
static const Sonde__V1__Target *
find_first(const struct relay *relay, const Sonde__V1__ListTargetsResponse *list, size_t *count) {
    const Sonde__V1__Target *first = NULL;
    *count = 0;
    for (size_t i = 0; i < list->n_targets; i++) {
        if (!may_mean(relay, list->targets[i]))
            continue;
        ++*count;
        first = first ? first : list->targets[i];
    }
    return first;
}

/* How to choose one, with this request's path as the example. */
static void append_advice(struct sonde_buf *text, struct relay *relay,
                          const Sonde__V1__ListTargetsResponse *list) {
    struct path_parts path;
    size_t count;
    const Sonde__V1__Target *first = find_first(relay, list, &count);
    char quoted[QUERY_QUOTED_SIZE], rest[QUERY_QUOTED_SIZE];
    (void)path_split(http_request_path(relay->request), &path);
    query_quote(path.rest, rest);
    if (!first) {
        sonde_buf_printf(text,
                         "no process is attached: name one before the path, /t/PID%s or /t/NAME%s "
                         "(/v1/targets?all=true lists them), or start one with: sonde run -- "
                         "COMMAND",
                         rest, rest);
        return;
    }
    if (relay->target.name[0])
        sonde_buf_printf(text, "%zu processes are called %s: name one by its pid", count,
                         query_quote(sonde_slice_of(relay->target.name), quoted));
    else
        sonde_buf_printf(text, "%zu processes are attached: name one", count);
    sonde_buf_puts(text, " before the path, for example ");
    target_path_append(text, list, first);
    sonde_buf_printf(text, "%s, or with ?pid=", rest);
    if (!relay->target.name[0])
        sonde_buf_puts(text, " or ?target=");
}

/* Answers with how to name a target, and with the list of those that the request may mean. */
static void on_targets(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__ListTargetsResponse *list = (const void *)message;
    struct sonde_buf text = {.limit = MAX_LIST};
    append_advice(&text, relay, list);
    for (size_t i = 0; i < list->n_targets; i++)
        if (may_mean(relay, list->targets[i]))
            append_target(&text, list->targets[i]);
    reply_status(relay_take_request(relay), relay->family, 400, "TARGET_AMBIGUOUS", text.data);
    sonde_buf_finish(&text);
}

static void list_targets(struct relay *relay) {
    static const struct relay_events events = {.on_message = on_targets};
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    request.include_unattached = relay->target.name[0] != 0;
    relay->events = &events;
    relay_call(relay, &client_list_targets, &request.base, UNARY_DEADLINE_MS);
}

/* The service says more about a pid, for example that it is a thread's. */
static void refuse_target(struct relay *relay, const struct sonde_diag *diag) {
    static const char list[] = "/v1/targets?all=true lists all processes";
    char text[sizeof diag->text + QUERY_QUOTED_SIZE + 64], quoted[QUERY_QUOTED_SIZE];
    const struct target_choice *target = &relay->target;
    if (target->name[0])
        snprintf(text, sizeof text, "no process is called \"%s\"; %s",
                 query_quote(sonde_slice_of(target->name), quoted), list);
    else if (diag && diag->text[0])
        snprintf(text, sizeof text, "%s; %s", diag->text, list);
    else
        snprintf(text, sizeof text, "no process has pid %d; %s", target->pid, list);
    reply_status(relay_take_request(relay), relay->family, 404, "TARGET_NOT_FOUND", text);
}

void relay_refuse(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    bool is_named = relay->target.name[0] || relay->target.pid;
    if (err == SONDE_TARGET_AMBIGUOUS && !relay->call) {
        list_targets(relay);
    } else if (err == SONDE_TARGET_NOT_FOUND && is_named) {
        refuse_target(relay, diag);
    } else {
        reply_error(relay_take_request(relay), relay->family, err, diag);
    }
}

void relay_refuse_busy(struct relay *relay, const char *words, const struct sonde_diag *diag) {
    struct sonde_diag refusal = {.code = SONDE_SESSION_BUSY};
    const char *text = sonde_diag_text(diag, SONDE_SESSION_BUSY);
    bool has_words = strncmp(text, words, strlen(words)) == 0;
    snprintf(refusal.text, sizeof refusal.text, "%s%s%s", has_words ? "" : words,
             has_words ? "" : ": ", text);
    relay_refuse(relay, SONDE_SESSION_BUSY, &refusal);
}

const char *relay_owner(const struct request_context *context, char owner[RELAY_OWNER_SIZE]) {
    char peer[RELAY_OWNER_SIZE - 16];
    http_request_peer(context->request, peer, sizeof peer);
    snprintf(owner, RELAY_OWNER_SIZE, "REST client %s", peer);
    return owner;
}

static void ignore_message(struct relay *relay, const ProtobufCMessage *message) {
}

/* Several processes may share a name if the call accepts several as its target. */
static void on_checked(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    if (err && !(err == SONDE_TARGET_AMBIGUOUS && relay->target.all))
        relay_refuse(relay, err, diag);
    else
        relay->on_found(relay);
}

static void check_service(struct relay *relay) {
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    relay_call(relay, &client_get_info, &request.base, UNARY_DEADLINE_MS);
}

void relay_check_target(struct relay *relay, void (*on_found)(struct relay *relay)) {
    static const struct relay_events events = {ignore_message, on_checked, NULL};
    Sonde__V1__GetCommandLineRequest request = SONDE__V1__GET_COMMAND_LINE_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    selector.all = false;
    request.target = &selector;
    relay->events = &events;
    relay->on_found = on_found;
    if (relay->target.all && !*selector.name && !selector.pid)
        check_service(relay);
    else
        relay_call(relay, &client_get_command_line, &request.base, UNARY_DEADLINE_MS);
}
