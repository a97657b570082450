/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of links and the OpenAPI description. The list asks the service for the targets, the
 * state of heap profiling if only one target fits, and the saved captures. It leaves out the last
 * two if they do not come. */
#include "gateway/families/index_page.h"
#include "gateway/handlers.h"
#include "gateway/openapi.h"
#include "gateway/reply/relay.h"
#include "gateway/reply/reply.h"

#include <stdio.h>
#include <string.h>

#define DEADLINE_MS       5000
#define EXTRA_DEADLINE_MS 1000
#define LIST_POLICY                                                       \
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action " \
    "'none'; frame-ancestors 'none'"

struct index {
    struct relay relay;
    bool named;  /* the path's prefix names a target */
    int32_t pid; /* the only target that fits; 0 = several or none */
    struct index_page page;
};

static void answer(struct index *index) {
    struct sonde_buf out = {0};
    bool html = index->page.html;
    index_page_write(&index->page, &out);
    struct http_answer answer = {.status = 200,
                                 .content_type = html ? REPLY_HTML : REPLY_TEXT,
                                 .content_security_policy = html ? LIST_POLICY : NULL,
                                 .headers = {{"vary", "Accept"}},
                                 .header_count = 1};
    http_answer(relay_take_request(&index->relay), &answer, sonde_buf_slice(&out));
    sonde_buf_finish(&out);
}

static void finish(struct relay *relay) {
    index_page_finish(&((struct index *)relay)->page);
}

/* ---- Saved captures ---- */

static void on_captures(struct relay *relay, const ProtobufCMessage *message) {
    index_page_add_captures(&((struct index *)relay)->page, (const void *)message);
}

static void on_captures_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    answer((struct index *)relay);
}

static void ask_captures(struct index *index) {
    static const struct relay_events events = {on_captures, on_captures_end, finish};
    Sonde__V1__ListCapturesRequest request = SONDE__V1__LIST_CAPTURES_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&index->relay.target);
    request.target = &selector;
    index->relay.events = &events;
    relay_call(&index->relay, &client_list_captures, &request.base, EXTRA_DEADLINE_MS);
}

/* ---- Heap profiling ---- */

static void on_heap(struct relay *relay, const ProtobufCMessage *message) {
    index_page_add_heap(&((struct index *)relay)->page, (const void *)message);
}

static void on_heap_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    ask_captures((struct index *)relay);
}

static void ask_heap(struct index *index) {
    static const struct relay_events events = {on_heap, on_heap_end, finish};
    Sonde__V1__HeapStatusRequest request = SONDE__V1__HEAP_STATUS_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = SONDE__V1__TARGET_SELECTOR__INIT;
    selector.pid = index->pid;
    request.target = &selector;
    index->relay.events = &events;
    relay_call(&index->relay, &client_heap_status, &request.base, EXTRA_DEADLINE_MS);
}

/* ---- Targets ---- */

/* Returns the pid of the only target that fits the prefix, or 0; counts all that fit. Without a
 * prefix the attached ones fit. */
static int32_t find_pid(const struct index *index, const Sonde__V1__ListTargetsResponse *list,
                        size_t *fitting) {
    const struct target_choice *choice = &index->relay.target;
    int32_t pid = 0;
    *fitting = 0;
    for (size_t i = 0; i < list->n_targets; i++) {
        const Sonde__V1__Target *target = list->targets[i];
        bool fits = !index->named   ? !target->unattached
                    : choice->pid   ? target->pid == choice->pid
                    : *choice->name ? !strcmp(target->name, choice->name)
                                    : choice->all;
        *fitting += fits;
        pid = fits ? target->pid : pid;
    }
    return *fitting == 1 && !choice->all ? pid : 0;
}

static void on_targets(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__ListTargetsResponse *list = (const void *)message;
    struct index *index = (struct index *)relay;
    size_t fitting;
    index->pid = find_pid(index, list, &fitting);
    if (index->named && fitting == 0)
        relay_refuse(relay, SONDE_TARGET_NOT_FOUND, NULL);
    else
        index_page_add_targets(&index->page, list);
}

static void on_targets_end(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    struct index *index = (struct index *)relay;
    if (err)
        relay_refuse(relay, err, diag);
    else if (index->pid)
        ask_heap(index);
    else
        ask_captures(index);
}

static void set_prefix(struct index *index, const struct request_context *context) {
    struct sonde_buf prefix = {0};
    if (!context->path.named)
        return;
    sonde_buf_puts(&prefix, "/t/");
    path_append_target(&prefix, &context->path.target);
    snprintf(index->page.prefix, sizeof index->page.prefix, "%s", prefix.data);
    sonde_buf_finish(&prefix);
    index->named = true;
    index->page.is_of_many = context->path.target.all;
    index->relay.target = context->path.target;
}

void handle_index(const struct request_context *context) {
    static const struct relay_events events = {on_targets, on_targets_end, finish};
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    request.include_advice = true;
    struct index *index = relay_create(context, sizeof *index, &events);
    reply_base(context->request, index->page.base);
    index->page.routes = context->gateway->routes;
    index->page.route_count = context->gateway->route_count;
    index->page.html = negotiate_wants_html(&context->headers);
    set_prefix(index, context);
    request.include_unattached = index->named;
    relay_call(&index->relay, &client_list_targets, &request.base, DEADLINE_MS);
}

void handle_openapi(const struct request_context *context) {
    reply_bytes(context->request, "application/yaml", openapi_text());
}
