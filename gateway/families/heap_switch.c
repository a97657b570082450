/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/families/heap_switch.h"

#define MAX_INTERVAL_S 86400
#define MAX_DUMPS      10000

static void ask_status(struct relay *relay, const struct relay_events *events) {
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    request.target = &selector;
    relay->events = events;
    relay_call(relay, &client_heap_status, &request.base, HEAP_DEADLINE_MS);
}

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
    ask_status(relay, &events);
}

/* on_missing set means inactive so far. */
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
    relay->on_found = on_active;
    relay->on_missing = on_inactive;
    ask_status(relay, &events);
}

sonde_err heap_switch_read(const struct query *query, struct heap_switch *wanted,
                           struct sonde_diag *diag) {
    struct sonde_slice name;
    char quoted[QUERY_QUOTED_SIZE];
    sonde_err err = query_whole(query, "interval", 0, MAX_INTERVAL_S, &wanted->interval_s, diag);
    if (!err)
        err = query_whole(query, "keep", 1, MAX_DUMPS, &wanted->keep_dumps, diag);
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

void heap_activate(struct relay *relay, const struct request_context *context,
                   const struct heap_switch *wanted) {
    char owner[RELAY_OWNER_SIZE];
    Sonde__V1__HeapActivateRequest request = SONDE__V1__HEAP_ACTIVATE_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    request.target = &selector;
    request.interval_s = (uint32_t)wanted->interval_s;
    request.keep_dumps = (uint32_t)wanted->keep_dumps;
    request.sample_bytes = wanted->sample_bytes;
    request.backend = wanted->backend;
    request.owner = (char *)(uintptr_t)relay_owner(context, owner);
    relay_call(relay, &client_heap_activate, &request.base, HEAP_DEADLINE_MS);
}

void heap_deactivate(struct relay *relay, bool delete_dumps) {
    Sonde__V1__HeapDeactivateRequest request = SONDE__V1__HEAP_DEACTIVATE_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    request.target = &selector;
    request.delete_dumps = delete_dumps;
    relay_call(relay, &client_heap_deactivate, &request.base, HEAP_DEADLINE_MS);
}
