/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/info and /v1/targets: messages of the service as JSON. A client of /v1/targets that accepts
 * application/x-ndjson gets the attached targets and then every change, one line each. With
 * ?all=true the list has processes without the guest, too; their changes are not watched. With
 * ?advice=true it says what would name the functions of a process. */
#include "gateway/handlers.h"
#include "gateway/reply/json_lines.h"
#include "gateway/reply/reply.h"

#define DEADLINE_MS      5000
#define LONG_DEADLINE_MS 30000 /* for thousands of processes */

void handle_info(const struct request_context *context) {
    static const struct relay_events events = {.on_message = relay_answer_json};
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    request.include_rights = true;
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

static void list_targets(const struct request_context *context, bool all, bool advice) {
    static const struct relay_events events = {.on_message = relay_answer_json};
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    request.include_unattached = all;
    request.include_advice = advice;
    relay_call(relay_create(context, sizeof(struct relay), &events), &client_list_targets,
               &request.base, all || advice ? LONG_DEADLINE_MS : DEADLINE_MS);
}

void handle_targets(const struct request_context *context) {
    struct sonde_diag diag = {0};
    bool all = false, advice = false,
         watches = negotiate_names_type(context->headers.accept, LINES_TYPE);
    sonde_err err = query_flag(&context->query, "all", &all, &diag);
    if (!err)
        err = query_flag(&context->query, "advice", &advice, &diag);
    if (!err && all && watches)
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT,
                         "all: only changes of attached processes can be watched: leave out all, "
                         "or do not accept application/x-ndjson");
    if (!err && advice && watches)
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT,
                         "advice: changes come without it: leave out advice, or do not accept "
                         "application/x-ndjson");
    if (err)
        reply_error(context->request, context->family, err, &diag);
    else if (watches)
        watch_targets(context);
    else
        list_targets(context, all, advice);
}
