/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/heap: the state of heap profiling as JSON, and PUT ?active=true or false to switch it. */
#include "api/json/json.h"
#include "gateway/families/tikv_heap.h"
#include "gateway/handlers.h"
#include "gateway/request/reply.h"

#define MAX_SAMPLE (1ull << 40)

struct switching {
    bool active, delete_dumps;
    struct heap_switch on; /* the best backend there is */
};

static void answer_message(struct relay *relay, const ProtobufCMessage *message) {
    struct sonde_buf text = {0};
    sonde_json_message(&text, message);
    sonde_buf_putc(&text, '\n');
    reply_bytes(relay_take_request(relay), REPLY_JSON, sonde_buf_slice(&text));
    sonde_buf_finish(&text);
}

static void on_deactivated(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__HeapDeactivated *done = (const void *)message;
    static const Sonde__V1__HeapState unknown = SONDE__V1__HEAP_STATE__INIT;
    answer_message(relay, done->state ? &done->state->base : &unknown.base);
}

static sonde_err read_switching(const struct query *query, struct switching *wanted,
                                struct sonde_diag *diag) {
    struct sonde_slice unused;
    *wanted = (struct switching){0};
    if (!query_get(query, "active", &unused))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "active: say ?active=true or ?active=false");
    sonde_err err = query_flag(query, "active", &wanted->active, diag);
    if (!err)
        err = heap_read_switch(query, &wanted->on, diag);
    if (!err)
        err = query_whole(query, "sample_bytes", 4096, MAX_SAMPLE, &wanted->on.sample_bytes, diag);
    return err ? err : query_flag(query, "delete_dumps", &wanted->delete_dumps, diag);
}

static void put_heap(struct visit *visit) {
    static const struct relay_events on = {.on_message = answer_message},
                                     off = {.on_message = on_deactivated};
    struct sonde_diag diag = {0};
    struct switching wanted;
    sonde_err err = read_switching(&visit->query, &wanted, &diag);
    if (err) {
        reply_error(visit->request, visit->family, err, &diag);
        return;
    }
    struct relay *relay = relay_create(visit, sizeof *relay, wanted.active ? &on : &off);
    if (wanted.active)
        heap_activate(relay, visit, &wanted.on);
    else
        heap_deactivate(relay, wanted.delete_dumps);
}

void handle_v1_heap(struct visit *visit) {
    static const struct relay_events events = {.on_message = answer_message};
    if (visit->method == METHOD_PUT) {
        put_heap(visit);
        return;
    }
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&visit->target);
    request.target = &selector;
    relay_call(relay_create(visit, sizeof(struct relay), &events), &client_heap_status,
               &request.base, HEAP_DEADLINE_MS);
}
