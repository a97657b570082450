/* SPDX-License-Identifier: Apache-2.0
 *
 * Two ends that may go in any order: the request (answered, or its client left) and the call. Every
 * callback comes in through one of the entry points below, and each of them ends in
 * exchange_settle, which frees the exchange once both are gone. */
#include "gateway/exchange.h"

#include "gateway/request/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define UNARY_DEADLINE_MS 5000
#define MAX_TOKEN         4096
#define MAX_LIST          (64u << 10) /* bytes of an error text that lists targets */

static void on_gone(void *context) {
    struct exchange *exchange = context;
    exchange->request = NULL;
    if (exchange->call)
        client_call_cancel(exchange->call);
    exchange_settle(exchange);
}

/* What stands behind "Bearer ", for the service to judge. */
static char *dup_token(struct http_request *request) {
    static const char scheme[] = "bearer ";
    struct sonde_slice header = http_request_header(request, "authorization");
    size_t skip = sizeof scheme - 1;
    if (!header.data || header.len <= skip || header.len > MAX_TOKEN ||
        strncasecmp(header.data, scheme, skip) != 0)
        return NULL;
    for (size_t i = skip; i < header.len; i++)
        if (header.data[i] <= ' ' || header.data[i] >= 0x7f)
            return NULL;
    return strndup(header.data + skip, header.len - skip);
}

void *exchange_create(struct visit *visit, size_t size, const struct exchange_events *events) {
    struct exchange *exchange = calloc(1, size);
    if (!exchange)
        abort();
    exchange->gateway = visit->gateway;
    exchange->request = visit->request;
    exchange->events = events;
    exchange->finish = events->finish;
    exchange->family = visit->family;
    exchange->target = visit->target;
    exchange->token = dup_token(visit->request);
    exchange->gateway->exchanges++;
    http_request_on_gone(visit->request, on_gone, exchange);
    return exchange;
}

void exchange_settle(struct exchange *exchange) {
    if (exchange->request || exchange->call || exchange->inside)
        return;
    if (exchange->finish)
        exchange->finish(exchange);
    exchange->gateway->exchanges--;
    free(exchange->token);
    free(exchange);
}

static bool on_message(void *context, struct client_call *call, const ProtobufCMessage *message) {
    struct exchange *exchange = context;
    if (!exchange->request)
        return true; /* nobody listens any more: let the cancelled call end */
    exchange->inside = true;
    exchange->pulled = false;
    if (exchange->events->on_message)
        exchange->events->on_message(exchange, message);
    exchange->inside = false;
    return exchange->pulled;
}

static bool on_chunk(void *context, struct client_call *call, struct client_chunk *chunk) {
    struct exchange *exchange = context;
    if (!exchange->request) {
        client_chunk_destroy(chunk);
        return true;
    }
    exchange->inside = true;
    exchange->pulled = false;
    exchange->on_chunk(exchange, chunk);
    exchange->inside = false;
    return exchange->pulled;
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    struct exchange *exchange = context;
    exchange->call = NULL;
    exchange->inside = true;
    if (exchange->request && exchange->events->on_end)
        exchange->events->on_end(exchange, err, diag);
    else if (exchange->request && err)
        exchange_refuse(exchange, err, diag);
    else if (exchange->request)
        exchange_refuse(exchange, SONDE_PROTOCOL, NULL);
    exchange->inside = false;
    exchange_settle(exchange);
}

void exchange_call(struct exchange *exchange, const struct client_method *method,
                   const ProtobufCMessage *request, uint32_t deadline_ms) {
    const struct client_callbacks callbacks = {on_message, on_end,
                                               exchange->on_chunk ? on_chunk : NULL};
    exchange->call = client_call_start(exchange->gateway->client, method, request, deadline_ms,
                                       exchange->token, &callbacks, exchange);
    if (!exchange->call)
        abort();
}

void exchange_pull(struct exchange *exchange) {
    if (exchange->inside)
        exchange->pulled = true;
    else if (exchange->call)
        client_call_next(exchange->call);
}

struct http_request *exchange_take_request(struct exchange *exchange) {
    struct http_request *request = exchange->request;
    http_request_on_gone(request, NULL, NULL);
    exchange->request = NULL;
    if (exchange->call && !exchange->inside)
        client_call_cancel(exchange->call);
    return request;
}

Sonde__V1__TargetSelector exchange_selector(const struct target_choice *target) {
    Sonde__V1__TargetSelector selector = SONDE__V1__TARGET_SELECTOR__INIT;
    selector.name = (char *)(uintptr_t)target->name;
    selector.pid = target->pid;
    return selector;
}

/* The target was not clear: the service's sentence, and below it every target there is. */
static void on_targets(struct exchange *exchange, const ProtobufCMessage *message) {
    const Sonde__V1__ListTargetsResponse *list = (const void *)message;
    struct sonde_buf text = {.limit = MAX_LIST};
    const char *sentence = sonde_diag_text(&exchange->diag, SONDE_TARGET_AMBIGUOUS);
    sonde_buf_append(&text, sentence, strcspn(sentence, "\n"));
    for (size_t i = 0; i < list->n_targets; i++) {
        const Sonde__V1__Target *target = list->targets[i];
        time_t start = (time_t)(target->start_unix_ns / 1000000000);
        char since[40], quoted[QUERY_QUOTED_SIZE];
        struct tm parts;
        strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&start, &parts));
        sonde_buf_printf(&text, "\n%s %d %s", query_quote(sonde_slice_of(target->name), quoted),
                         target->pid, since);
    }
    reply_status(exchange_take_request(exchange), exchange->family, 400, "TARGET_AMBIGUOUS",
                 text.data);
    sonde_buf_finish(&text);
}

static void list_targets(struct exchange *exchange) {
    static const struct exchange_events events = {.on_message = on_targets};
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    exchange->events = &events;
    exchange_call(exchange, &client_list_targets, &request.base, UNARY_DEADLINE_MS);
}

static void refuse_target(struct exchange *exchange) {
    char text[QUERY_QUOTED_SIZE + 64], quoted[QUERY_QUOTED_SIZE];
    const struct target_choice *target = &exchange->target;
    if (target->name[0])
        snprintf(text, sizeof text,
                 "no target \"%s\" is attached; /v1/targets lists those that are",
                 query_quote(sonde_slice_of(target->name), quoted));
    else
        snprintf(text, sizeof text,
                 "no target with pid %d is attached; /v1/targets lists those that are",
                 target->pid);
    reply_status(exchange_take_request(exchange), exchange->family, 404, "TARGET_NOT_FOUND", text);
}

void exchange_refuse(struct exchange *exchange, sonde_err err, const struct sonde_diag *diag) {
    bool is_named = exchange->target.name[0] || exchange->target.pid;
    if (err == SONDE_TARGET_AMBIGUOUS && !exchange->call) {
        if (diag)
            exchange->diag = *diag;
        list_targets(exchange);
    } else if (err == SONDE_TARGET_NOT_FOUND && is_named) {
        refuse_target(exchange);
    } else {
        reply_error(exchange_take_request(exchange), exchange->family, err, diag);
    }
}

void exchange_refuse_busy(struct exchange *exchange, const char *words,
                          const struct sonde_diag *diag) {
    struct sonde_diag refusal = {.code = SONDE_SESSION_BUSY};
    const char *text = sonde_diag_text(diag, SONDE_SESSION_BUSY);
    bool has_words = strncmp(text, words, strlen(words)) == 0;
    snprintf(refusal.text, sizeof refusal.text, "%s%s%s", has_words ? "" : words,
             has_words ? "" : ": ", text);
    exchange_refuse(exchange, SONDE_SESSION_BUSY, &refusal);
}

const char *exchange_owner(const struct visit *visit, char owner[EXCHANGE_OWNER_SIZE]) {
    char peer[EXCHANGE_OWNER_SIZE - 16];
    http_request_peer(visit->request, peer, sizeof peer);
    snprintf(owner, EXCHANGE_OWNER_SIZE, "REST client %s", peer);
    return owner;
}

static void ignore_message(struct exchange *exchange, const ProtobufCMessage *message) {
}

static void on_checked(struct exchange *exchange, sonde_err err, const struct sonde_diag *diag) {
    if (err)
        exchange_refuse(exchange, err, diag);
    else
        exchange->on_found(exchange);
}

void exchange_check_target(struct exchange *exchange, void (*on_found)(struct exchange *exchange)) {
    static const struct exchange_events events = {ignore_message, on_checked, NULL};
    Sonde__V1__GetCommandLineRequest request = SONDE__V1__GET_COMMAND_LINE_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = exchange_selector(&exchange->target);
    request.target = &selector;
    exchange->events = &events;
    exchange->on_found = on_found;
    exchange_call(exchange, &client_get_command_line, &request.base, UNARY_DEADLINE_MS);
}
