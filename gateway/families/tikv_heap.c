/* SPDX-License-Identifier: Apache-2.0
 *
 * TiKV's way of switching heap profiling: heap_activate, heap_deactivate, heap_list. Its words are
 * promised to the letter. */
#include "gateway/families/tikv_heap.h"

#include "gateway/handlers.h"
#include "gateway/request/reply.h"

#include <time.h>

#define MAX_INTERVAL_S 86400

static void on_note(struct exchange *exchange, const ProtobufCMessage *message) {
    const Sonde__V1__HeapState *state = (const void *)message;
    sonde_err code = state->note[0] ? SONDE_NOT_AVAILABLE : SONDE_NOT_ACTIVE;
    exchange->diag.code =
        sonde_fail(&exchange->diag, code, "%s",
                   state->note[0] ? state->note : sonde_diag_text(NULL, SONDE_NOT_ACTIVE));
}

static void on_note_ended(struct exchange *exchange, sonde_err err, const struct sonde_diag *diag) {
    if (err)
        exchange_refuse(exchange, err, diag);
    else
        exchange_refuse(exchange, exchange->diag.code ? exchange->diag.code : SONDE_PROTOCOL,
                        &exchange->diag);
}

void heap_refuse_inactive(struct exchange *exchange) {
    static const struct exchange_events events = {on_note, on_note_ended, NULL};
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = exchange_selector(&exchange->target);
    request.target = &selector;
    exchange->events = &events;
    exchange_call(exchange, &client_heap_status, &request.base, HEAP_DEADLINE_MS);
}

static void on_state(struct exchange *exchange, const ProtobufCMessage *message) {
    const Sonde__V1__HeapState *state = (const void *)message;
    if (state->active)
        exchange->on_missing = NULL;
}

static void on_state_ended(struct exchange *exchange, sonde_err err,
                           const struct sonde_diag *diag) {
    if (err && err != SONDE_NOT_AVAILABLE)
        exchange_refuse(exchange, err, diag);
    else if (exchange->on_missing)
        exchange->on_missing(exchange);
    else
        exchange->on_found(exchange);
}

void heap_if_active(struct exchange *exchange, void (*on_active)(struct exchange *exchange),
                    void (*on_inactive)(struct exchange *exchange)) {
    static const struct exchange_events events = {on_state, on_state_ended, NULL};
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = exchange_selector(&exchange->target);
    request.target = &selector;
    exchange->events = &events;
    exchange->on_found = on_active;
    exchange->on_missing = on_inactive;
    exchange_call(exchange, &client_heap_status, &request.base, HEAP_DEADLINE_MS);
}

sonde_err heap_read_switch(const struct query *query, struct heap_switch *wanted,
                           struct sonde_diag *diag) {
    struct sonde_slice name;
    char quoted[QUERY_QUOTED_SIZE];
    sonde_err err = query_whole(query, "interval", 0, MAX_INTERVAL_S, &wanted->interval_s, diag);
    if (err || !query_get(query, "backend", &name))
        return err;
    if (sonde_slice_equals(name, "jemalloc"))
        wanted->backend = SONDE__V1__HEAP_STATE__BACKEND__JEMALLOC;
    else if (sonde_slice_equals(name, "interposed"))
        wanted->backend = SONDE__V1__HEAP_STATE__BACKEND__INTERPOSED;
    else
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "backend: \"%s\" is not one of jemalloc, interposed",
                          query_quote(name, quoted));
    return SONDE_OK;
}

void heap_activate(struct exchange *exchange, struct visit *visit,
                   const struct heap_switch *wanted) {
    char owner[EXCHANGE_OWNER_SIZE];
    Sonde__V1__HeapActivateRequest request = SONDE__V1__HEAP_ACTIVATE_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = exchange_selector(&exchange->target);
    request.target = &selector;
    request.interval_s = (uint32_t)wanted->interval_s;
    request.sample_bytes = wanted->sample_bytes;
    request.backend = wanted->backend;
    request.owner = (char *)(uintptr_t)exchange_owner(visit, owner);
    exchange_call(exchange, &client_heap_activate, &request.base, HEAP_DEADLINE_MS);
}

void heap_deactivate(struct exchange *exchange, bool delete_dumps) {
    Sonde__V1__HeapDeactivateRequest request = SONDE__V1__HEAP_DEACTIVATE_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = exchange_selector(&exchange->target);
    request.target = &selector;
    request.delete_dumps = delete_dumps;
    exchange_call(exchange, &client_heap_deactivate, &request.base, HEAP_DEADLINE_MS);
}

static void answer_activated(struct exchange *exchange) {
    reply_text(exchange_take_request(exchange), 200, "activate heap profile success");
}

static void on_activated(struct exchange *exchange, const ProtobufCMessage *message) {
    answer_activated(exchange);
}

static void on_activate_ended(struct exchange *exchange, sonde_err err,
                              const struct sonde_diag *diag) {
    if (err == SONDE_SESSION_BUSY)
        exchange_refuse_busy(exchange, "Already in Heap Profiling", diag);
    else
        exchange_refuse(exchange, err ? err : SONDE_PROTOCOL, diag);
}

void handle_heap_activate(struct visit *visit) {
    static const struct exchange_events events = {on_activated, on_activate_ended, NULL};
    struct sonde_diag diag = {0};
    struct heap_switch wanted = HEAP_SWITCH_PROMISED;
    sonde_err err = heap_read_switch(&visit->query, &wanted, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    struct exchange *exchange = exchange_create(visit, sizeof *exchange, &events);
    if (visit->head)
        exchange_check_target(exchange, answer_activated);
    else
        heap_activate(exchange, visit, &wanted);
}

static void answer_deactivated(struct exchange *exchange) {
    reply_text(exchange_take_request(exchange), 200, "deactivate heap profile success");
}

static void answer_was_inactive(struct exchange *exchange) {
    reply_text(exchange_take_request(exchange), 200, "no heap profile is running");
}

static void on_deactivated(struct exchange *exchange, const ProtobufCMessage *message) {
    const Sonde__V1__HeapDeactivated *done = (const void *)message;
    if (done->was_active)
        answer_deactivated(exchange);
    else
        answer_was_inactive(exchange);
}

static void on_deactivate_ended(struct exchange *exchange, sonde_err err,
                                const struct sonde_diag *diag) {
    if (err == SONDE_NOT_AVAILABLE)
        answer_was_inactive(exchange);
    else
        exchange_refuse(exchange, err ? err : SONDE_PROTOCOL, diag);
}

void handle_heap_deactivate(struct visit *visit) {
    static const struct exchange_events events = {on_deactivated, on_deactivate_ended, NULL};
    struct exchange *exchange = exchange_create(visit, sizeof *exchange, &events);
    if (visit->head)
        exchange_check_target(exchange, answer_deactivated);
    else
        heap_deactivate(exchange, true);
}

/* In the service's time zone, which need not be ours. */
static void append_dump(struct sonde_buf *out, const Sonde__V1__HeapDump *dump) {
    time_t seconds = (time_t)(dump->unix_ns / 1000000000 + dump->utc_offset_s);
    char text[32];
    struct tm parts;
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", gmtime_r(&seconds, &parts));
    sonde_buf_printf(out, "%s%s\t\t%s", out->len ? "\n" : "", dump->name, text);
}

static void on_dumps(struct exchange *exchange, const ProtobufCMessage *message) {
    const Sonde__V1__ListHeapDumpsResponse *list = (const void *)message;
    struct sonde_buf text = {0};
    for (size_t i = 0; i < list->n_dumps; i++)
        append_dump(&text, list->dumps[i]);
    reply_bytes(exchange_take_request(exchange), REPLY_TEXT, sonde_buf_slice(&text));
    sonde_buf_finish(&text);
}

static void list_dumps(struct exchange *exchange) {
    static const struct exchange_events events = {.on_message = on_dumps};
    Sonde__V1__ListHeapDumpsRequest request = SONDE__V1__LIST_HEAP_DUMPS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = exchange_selector(&exchange->target);
    request.target = &selector;
    exchange->events = &events;
    exchange_call(exchange, &client_list_heap_dumps, &request.base, HEAP_DEADLINE_MS);
}

static void answer_empty_list(struct exchange *exchange) {
    reply_text(exchange_take_request(exchange), 200, "");
}

void handle_heap_list(struct visit *visit) {
    static const struct exchange_events none = {0};
    heap_if_active(exchange_create(visit, sizeof(struct exchange), &none), list_dumps,
                   answer_empty_list);
}
