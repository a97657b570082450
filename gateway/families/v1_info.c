/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/info and /v1/targets: messages of the service as JSON. A client of /v1/targets that accepts
 * application/x-ndjson gets the attached targets and then every change, one line each. */
#include "gateway/handlers.h"
#include "gateway/reply/json_lines.h"

#define DEADLINE_MS 5000

void handle_info(const struct request_context *context) {
    static const struct relay_events events = {.on_message = relay_answer_json};
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    relay_call(relay_create(context, sizeof(struct relay), &events), &client_get_info,
               &request.base, DEADLINE_MS);
}

static void on_change(struct relay *relay, const ProtobufCMessage *message) {
    lines_send((struct lines *)relay, message);
}

static void watch_targets(const struct request_context *context) {
    static const struct relay_events events = {on_change, lines_on_end, lines_finish};
    Sonde__V1__WatchTargetsRequest request = SONDE__V1__WATCH_TARGETS_REQUEST__INIT;
    struct relay *relay = relay_create(context, sizeof(struct lines), &events);
    if (context->head) {
        lines_answer_head(relay);
        relay_settle(relay);
    } else {
        relay_call(relay, &client_watch_targets, &request.base, 0);
    }
}

static void list_targets(const struct request_context *context) {
    static const struct relay_events events = {.on_message = relay_answer_json};
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    relay_call(relay_create(context, sizeof(struct relay), &events), &client_list_targets,
               &request.base, DEADLINE_MS);
}

void handle_targets(const struct request_context *context) {
    if (negotiate_names_type(context->headers.accept, LINES_TYPE))
        watch_targets(context);
    else
        list_targets(context);
}
