/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/heap: GET returns the state of heap profiling as JSON, PUT ?active=true or false switches it.
 */
#include "gateway/families/heap_switch.h"
#include "gateway/handlers.h"
#include "gateway/reply/reply.h"

#define MAX_SAMPLE (1ull << 40)

struct switching {
    bool active, delete_dumps;
    struct heap_switch on; /* without `backend` the service chooses the best one */
};

static void on_deactivated(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__HeapDeactivated *done = (const void *)message;
    static const Sonde__V1__HeapState unknown = SONDE__V1__HEAP_STATE__INIT;
    relay_answer_json(relay, done->state ? &done->state->base : &unknown.base);
}

static sonde_err read_switching(const struct query *query, struct switching *wanted,
                                struct sonde_diag *diag) {
    struct sonde_slice unused;
    *wanted = (struct switching){0};
    if (!query_get(query, "active", &unused))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "active: missing; use ?active=true or ?active=false");
    sonde_err err = query_flag(query, "active", &wanted->active, diag);
    if (!err)
        err = heap_switch_read(query, &wanted->on, diag);
    if (!err)
        err = query_whole(query, "sample_bytes", 4096, MAX_SAMPLE, &wanted->on.sample_bytes, diag);
    return err ? err : query_flag(query, "delete_dumps", &wanted->delete_dumps, diag);
}

static void put_heap(const struct request_context *context) {
    static const struct relay_events on = {.on_message = relay_answer_json},
                                     off = {.on_message = on_deactivated};
    struct sonde_diag diag = {0};
    struct switching wanted;
    sonde_err err = read_switching(&context->query, &wanted, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    struct relay *relay = relay_create(context, sizeof *relay, wanted.active ? &on : &off);
    if (wanted.active)
        heap_activate(relay, context, &wanted.on);
    else
        heap_deactivate(relay, wanted.delete_dumps);
}

void handle_v1_heap(const struct request_context *context) {
    static const struct relay_events events = {.on_message = relay_answer_json};
    if (context->method == METHOD_PUT) {
        put_heap(context);
        return;
    }
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    request.target = &selector;
    relay_call(relay_create(context, sizeof(struct relay), &events), &client_heap_status,
               &request.base, HEAP_DEADLINE_MS);
}
