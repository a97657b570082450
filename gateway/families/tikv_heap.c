/* SPDX-License-Identifier: Apache-2.0
 *
 * TiKV's way of switching heap profiling: heap_activate, heap_deactivate, heap_list. Its words are
 * promised to the letter. */
#include "gateway/families/tikv_heap.h"

#include "gateway/handlers.h"
#include "gateway/request/reply.h"

#include <time.h>

#define MAX_INTERVAL_S 86400

static void on_note(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__HeapState *state = (const void *)message;
    sonde_err code = state->note[0] ? SONDE_NOT_AVAILABLE : SONDE_NOT_ACTIVE;
    relay->diag.code =
        sonde_fail(&relay->diag, code, "%s",
                   state->note[0] ? state->note : sonde_diag_text(NULL, SONDE_NOT_ACTIVE));
}

static void on_note_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    if (err)
        relay_refuse(relay, err, diag);
    else
        relay_refuse(relay, relay->diag.code ? relay->diag.code : SONDE_PROTOCOL, &relay->diag);
}

void heap_refuse_inactive(struct relay *relay) {
    static const struct relay_events events = {on_note, on_note_ended, NULL};
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    request.target = &selector;
    relay->events = &events;
    relay_call(relay, &client_heap_status, &request.base, HEAP_DEADLINE_MS);
}

static void on_state(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__HeapState *state = (const void *)message;
    if (state->active)
        relay->on_missing = NULL;
}

static void on_state_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    if (err && err != SONDE_NOT_AVAILABLE)
        relay_refuse(relay, err, diag);
    else if (relay->on_missing)
        relay->on_missing(relay);
    else
        relay->on_found(relay);
}

void heap_if_active(struct relay *relay, void (*on_active)(struct relay *relay),
                    void (*on_inactive)(struct relay *relay)) {
    static const struct relay_events events = {on_state, on_state_ended, NULL};
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    request.target = &selector;
    relay->events = &events;
    relay->on_found = on_active;
    relay->on_missing = on_inactive;
    relay_call(relay, &client_heap_status, &request.base, HEAP_DEADLINE_MS);
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

void heap_activate(struct relay *relay, struct visit *visit, const struct heap_switch *wanted) {
    char owner[RELAY_OWNER_SIZE];
    Sonde__V1__HeapActivateRequest request = SONDE__V1__HEAP_ACTIVATE_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    request.target = &selector;
    request.interval_s = (uint32_t)wanted->interval_s;
    request.sample_bytes = wanted->sample_bytes;
    request.backend = wanted->backend;
    request.owner = (char *)(uintptr_t)relay_owner(visit, owner);
    relay_call(relay, &client_heap_activate, &request.base, HEAP_DEADLINE_MS);
}

void heap_deactivate(struct relay *relay, bool delete_dumps) {
    Sonde__V1__HeapDeactivateRequest request = SONDE__V1__HEAP_DEACTIVATE_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    request.target = &selector;
    request.delete_dumps = delete_dumps;
    relay_call(relay, &client_heap_deactivate, &request.base, HEAP_DEADLINE_MS);
}

static void answer_activated(struct relay *relay) {
    reply_text(relay_take_request(relay), 200, "activate heap profile success");
}

static void on_activated(struct relay *relay, const ProtobufCMessage *message) {
    answer_activated(relay);
}

static void on_activate_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    if (err == SONDE_SESSION_BUSY)
        relay_refuse_busy(relay, "Already in Heap Profiling", diag);
    else
        relay_refuse(relay, err ? err : SONDE_PROTOCOL, diag);
}

void handle_heap_activate(struct visit *visit) {
    static const struct relay_events events = {on_activated, on_activate_ended, NULL};
    struct sonde_diag diag = {0};
    struct heap_switch wanted = HEAP_SWITCH_PROMISED;
    sonde_err err = heap_read_switch(&visit->query, &wanted, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    struct relay *relay = relay_create(visit, sizeof *relay, &events);
    if (visit->head)
        relay_check_target(relay, answer_activated);
    else
        heap_activate(relay, visit, &wanted);
}

static void answer_deactivated(struct relay *relay) {
    reply_text(relay_take_request(relay), 200, "deactivate heap profile success");
}

static void answer_was_inactive(struct relay *relay) {
    reply_text(relay_take_request(relay), 200, "no heap profile is running");
}

static void on_deactivated(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__HeapDeactivated *done = (const void *)message;
    if (done->was_active)
        answer_deactivated(relay);
    else
        answer_was_inactive(relay);
}

static void on_deactivate_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    if (err == SONDE_NOT_AVAILABLE)
        answer_was_inactive(relay);
    else
        relay_refuse(relay, err ? err : SONDE_PROTOCOL, diag);
}

void handle_heap_deactivate(struct visit *visit) {
    static const struct relay_events events = {on_deactivated, on_deactivate_ended, NULL};
    struct relay *relay = relay_create(visit, sizeof *relay, &events);
    if (visit->head)
        relay_check_target(relay, answer_deactivated);
    else
        heap_deactivate(relay, true);
}

/* In the service's time zone, which need not be ours. */
static void append_dump(struct sonde_buf *out, const Sonde__V1__HeapDump *dump) {
    time_t seconds = (time_t)(dump->unix_ns / 1000000000 + dump->utc_offset_s);
    char text[32];
    struct tm parts;
    strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", gmtime_r(&seconds, &parts));
    sonde_buf_printf(out, "%s%s\t\t%s", out->len ? "\n" : "", dump->name, text);
}

static void on_dumps(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__ListHeapDumpsResponse *list = (const void *)message;
    struct sonde_buf text = {0};
    for (size_t i = 0; i < list->n_dumps; i++)
        append_dump(&text, list->dumps[i]);
    reply_bytes(relay_take_request(relay), REPLY_TEXT, sonde_buf_slice(&text));
    sonde_buf_finish(&text);
}

static void list_dumps(struct relay *relay) {
    static const struct relay_events events = {.on_message = on_dumps};
    Sonde__V1__ListHeapDumpsRequest request = SONDE__V1__LIST_HEAP_DUMPS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    request.target = &selector;
    relay->events = &events;
    relay_call(relay, &client_list_heap_dumps, &request.base, HEAP_DEADLINE_MS);
}

static void answer_empty_list(struct relay *relay) {
    reply_text(relay_take_request(relay), 200, "");
}

void handle_heap_list(struct visit *visit) {
    static const struct relay_events none = {0};
    heap_if_active(relay_create(visit, sizeof(struct relay), &none), list_dumps, answer_empty_list);
}
