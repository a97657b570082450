/* SPDX-License-Identifier: Apache-2.0
 *
 * GreptimeDB's memory paths, /debug/prof/mem and below. Activation is idempotent, errors are JSON
 * objects, and the texts about bad forms are those of GreptimeDB's web framework. */
#include "gateway/families/heap_switch.h"
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"

#include <stdio.h>

/* Sampling is off: answers 501 if the target has no profiler at all, otherwise 400 at the end. */
static void on_why(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__HeapState *state = (const void *)message;
    char text[400];
    if (state->note[0])
        snprintf(relay->diag.text, sizeof relay->diag.text, "%s", state->note);
    if (state->backend != SONDE__V1__HEAP_STATE__BACKEND__BACKEND_NONE)
        return;
    snprintf(text, sizeof text, "The 'mem-prof' feature is disabled: %s",
             state->note[0] ? state->note : sonde_diag_text(&relay->diag, SONDE_NOT_AVAILABLE));
    reply_status(relay_take_request(relay), FAMILY_PLAIN, 501, "NOT_AVAILABLE", text);
}

static void on_why_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    char text[400];
    snprintf(text, sizeof text, "Memory profiling is not enabled: %s",
             sonde_diag_text(&relay->diag, SONDE_NOT_AVAILABLE));
    reply_status(relay_take_request(relay), relay->family, 400, "NOT_AVAILABLE", text);
}

static void refuse(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    static const struct relay_events events = {on_why, on_why_ended, NULL};
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&relay->target);
    if (err != SONDE_NOT_AVAILABLE && err != SONDE_NOT_ACTIVE) {
        relay_refuse(relay, err ? err : SONDE_PROTOCOL, diag);
        return;
    }
    if (diag)
        relay->diag = *diag;
    request.target = &selector;
    relay->events = &events;
    relay_call(relay, &client_heap_status, &request.base, HEAP_DEADLINE_MS);
}

static void refuse_dump(struct profile_reply *reply, sonde_err err, const struct sonde_diag *diag) {
    struct relay *relay = &reply->relay;
    char text[400];
    if (err != SONDE_IO) {
        refuse(relay, err, diag);
        return;
    }
    snprintf(text, sizeof text, "Failed to dump profiling data: %s", sonde_diag_text(diag, err));
    reply_status(relay_take_request(relay), relay->family, 503, "IO", text);
}

void handle_mem_dump(const struct request_context *context) {
    const struct profile_setup *setup = context->route->setup;
    struct profile_format format;
    if (!profile_format_read(context, setup, setup->format, &format))
        return;
    Sonde__V1__HeapSnapshotRequest request = SONDE__V1__HEAP_SNAPSHOT_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    Sonde__V1__Rendering rendering = profile_format_rendering(&format);
    request.target = &selector;
    request.rendering = &rendering;
    struct profile_reply *reply = profile_reply_create(context, sizeof *reply, &format);
    reply->refuse = refuse_dump;
    profile_reply_start(reply, context, &client_heap_snapshot, &request.base, PROFILE_GRACE_MS);
}

static void answer_active(struct relay *relay, bool active) {
    reply_bytes(relay_take_request(relay), REPLY_JSON,
                sonde_slice_of(active ? "{\"active\": true}" : "{\"active\": false}"));
}

static void on_status(struct relay *relay, const ProtobufCMessage *message) {
    answer_active(relay, ((const Sonde__V1__HeapState *)(const void *)message)->active);
}

static void on_gdump(struct relay *relay, const ProtobufCMessage *message) {
    answer_active(relay, ((const Sonde__V1__HeapGdump *)(const void *)message)->active);
}

/* The state of a target that cannot be profiled is "off", not an error. */
static void on_read_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    if (err == SONDE_NOT_AVAILABLE)
        answer_active(relay, false);
    else
        relay_refuse(relay, err ? err : SONDE_PROTOCOL, diag);
}

void handle_mem_status(const struct request_context *context) {
    static const struct relay_events events = {on_status, on_read_ended, NULL};
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    request.target = &selector;
    relay_call(relay_create(context, sizeof(struct relay), &events), &client_heap_status,
               &request.base, HEAP_DEADLINE_MS);
}

static void answer_activated(struct relay *relay) {
    reply_text(relay_take_request(relay), 200, "Heap profiling activated");
}

static void on_activated(struct relay *relay, const ProtobufCMessage *message) {
    answer_activated(relay);
}

/* Activation is idempotent: refused because it is active already is a success. */
static void on_activate_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    if (err == SONDE_SESSION_BUSY)
        answer_activated(relay);
    else
        refuse(relay, err, diag);
}

void handle_mem_activate(const struct request_context *context) {
    static const struct relay_events events = {on_activated, on_activate_ended, NULL};
    struct heap_switch wanted = HEAP_SWITCH_PROMISED;
    struct sonde_diag diag = {0};
    sonde_err err = heap_switch_read(&context->query, &wanted, &diag);
    if (err)
        reply_error(context->request, context->family, err, &diag);
    else
        heap_activate(relay_create(context, sizeof(struct relay), &events), context, &wanted);
}

/* Whether activation works here without naming a backend. */
static bool is_enabled(const Sonde__V1__HeapState *state) {
    return state->available && state->backend == SONDE__V1__HEAP_STATE__BACKEND__JEMALLOC;
}

static void on_deactivated(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__HeapDeactivated *done = (const void *)message;
    if (done->was_active || !done->state || is_enabled(done->state))
        reply_text(relay_take_request(relay), 200, "Heap profiling deactivated");
    else
        snprintf(relay->diag.text, sizeof relay->diag.text, "%s",
                 done->state->note[0] ? done->state->note
                                      : sonde_diag_text(NULL, SONDE_NOT_AVAILABLE));
}

static void on_deactivate_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    if (err == SONDE_OK && relay->diag.text[0])
        refuse(relay, SONDE_NOT_AVAILABLE, NULL);
    else
        refuse(relay, err, diag);
}

void handle_mem_deactivate(const struct request_context *context) {
    static const struct relay_events events = {on_deactivated, on_deactivate_ended, NULL};
    heap_deactivate(relay_create(context, sizeof(struct relay), &events), false);
}

/* The path of heap_list for the same target. */
static void append_prefix(struct sonde_buf *out, const struct target_choice *target) {
    if (path_is_said(target)) {
        sonde_buf_puts(out, "/t/");
        path_append_target(out, target);
    }
    sonde_buf_puts(out, "/debug/pprof/");
}

/* The first line is GreptimeDB's. */
static void on_gdump_set(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__HeapGdump *gdump = (const void *)message;
    struct sonde_buf text = {0}, prefix = {0};
    append_prefix(&prefix, &relay->target);
    sonde_buf_puts(&text, gdump->active ? "gdump activated" : "gdump deactivated");
    if (gdump->active)
        sonde_buf_printf(&text,
                         "\nWhile heap profiling is active, a dump is saved at each new maximum of "
                         "mapped memory, at most one per second. The newest %u dumps are kept.\n"
                         "list: %sheap_list\nfetch: %sheap?name=NNNNNN.heap",
                         gdump->keep_dumps, prefix.data, prefix.data);
    reply_bytes(relay_take_request(relay), REPLY_TEXT, sonde_buf_slice(&text));
    sonde_buf_finish(&prefix);
    sonde_buf_finish(&text);
}

static void refuse_form(const struct request_context *context, const char *reason) {
    char text[400];
    snprintf(text, sizeof text, "Failed to deserialize form body: %s", reason);
    reply_text(context->request, 422, text);
}

/* Answers a bad form itself and returns false then. */
static bool read_gdump_form(const struct request_context *context, const struct query *form,
                            bool *active) {
    struct sonde_slice value;
    char quoted[QUERY_QUOTED_SIZE], reason[QUERY_QUOTED_SIZE + 64];
    if (query_occurrences(form, "activate") > 1) {
        refuse_form(context, "duplicate field `activate`");
        return false;
    }
    if (!query_get(form, "activate", &value)) {
        refuse_form(context, "missing field `activate`");
        return false;
    }
    *active = sonde_slice_equals(value, "true");
    if (*active || sonde_slice_equals(value, "false"))
        return true;
    snprintf(reason, sizeof reason, "activate: \"%s\" is not one of true, false",
             query_quote(value, quoted));
    refuse_form(context, reason);
    return false;
}

static void set_gdump(const struct request_context *context, bool active) {
    static const struct relay_events events = {on_gdump_set, refuse, NULL};
    Sonde__V1__SetHeapGdumpRequest request = SONDE__V1__SET_HEAP_GDUMP_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    request.target = &selector;
    request.active = active;
    relay_call(relay_create(context, sizeof(struct relay), &events), &client_set_heap_gdump,
               &request.base, HEAP_DEADLINE_MS);
}

static void get_gdump(const struct request_context *context) {
    static const struct relay_events events = {on_gdump, on_read_ended, NULL};
    Sonde__V1__GetHeapGdumpRequest request = SONDE__V1__GET_HEAP_GDUMP_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    request.target = &selector;
    relay_call(relay_create(context, sizeof(struct relay), &events), &client_get_heap_gdump,
               &request.base, HEAP_DEADLINE_MS);
}

void handle_mem_gdump(const struct request_context *context) {
    static const char form_type[] = "application/x-www-form-urlencoded";
    struct query form;
    bool active;
    if (context->method == METHOD_GET) {
        get_gdump(context);
        return;
    }
    if (!context->headers.content_type.data ||
        !negotiate_type_is(context->headers.content_type, form_type)) {
        reply_text(context->request, 415,
                   "Form requests must have `Content-Type: application/x-www-form-urlencoded`");
        return;
    }
    query_parse(&form, http_request_body(context->request));
    if (read_gdump_form(context, &form, &active))
        set_gdump(context, active);
    query_finish(&form);
}
