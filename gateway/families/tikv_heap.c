/* SPDX-License-Identifier: Apache-2.0
 *
 * TiKV's paths for switching heap profiling: heap_activate, heap_deactivate and heap_list. Its
 * document promises the exact texts. */
#include "gateway/families/heap_switch.h"
#include "gateway/handlers.h"
#include "gateway/reply/reply.h"

#include <time.h>

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

void handle_heap_activate(const struct request_context *context) {
    static const struct relay_events events = {on_activated, on_activate_ended, NULL};
    struct sonde_diag diag = {0};
    struct heap_switch wanted = HEAP_SWITCH_PROMISED;
    sonde_err err = heap_switch_read(&context->query, &wanted, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    struct relay *relay = relay_create(context, sizeof *relay, &events);
    if (context->head)
        relay_check_target(relay, answer_activated);
    else
        heap_activate(relay, context, &wanted);
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

void handle_heap_deactivate(const struct request_context *context) {
    static const struct relay_events events = {on_deactivated, on_deactivate_ended, NULL};
    struct relay *relay = relay_create(context, sizeof *relay, &events);
    if (context->head)
        relay_check_target(relay, answer_deactivated);
    else
        heap_deactivate(relay, true);
}

/* Local time of the service, which may run in another time zone. */
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

void handle_heap_list(const struct request_context *context) {
    static const struct relay_events none = {0};
    heap_if_active(relay_create(context, sizeof(struct relay), &none), list_dumps,
                   answer_empty_list);
}
