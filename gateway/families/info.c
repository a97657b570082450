/* SPDX-License-Identifier: Apache-2.0
 *
 * Small answers under /v1, messages of the service as JSON; and whether gateway and service live.
 */
#include "api/json/json.h"
#include "gateway/contract.h"
#include "gateway/families/live.h"
#include "gateway/handlers.h"
#include "gateway/request/json_lines.h"
#include "gateway/request/relay.h"
#include "gateway/request/reply.h"

#define DEADLINE_MS 5000
#define MOST_BYTES  1000 /* of an answer, mostly: room for them is made at once */

static void on_json(struct relay *relay, const ProtobufCMessage *message) {
    static const struct http_answer answer = {.status = 200, .content_type = REPLY_JSON};
    struct sonde_buf text = {0};
    sonde_buf_extend(&text, MOST_BYTES);
    text.len = 0;
    sonde_json_message(&text, message);
    sonde_buf_putc(&text, '\n');
    http_answer_take(relay_take_request(relay), &answer, &text);
}

void handle_targets(struct visit *visit) {
    static const struct relay_events events = {.on_message = on_json};
    if (negotiate_names_type(visit->headers.accept, LINES_TYPE)) {
        live_watch_targets(visit);
        return;
    }
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    relay_call(relay_create(visit, sizeof(struct relay), &events), &client_list_targets,
               &request.base, DEADLINE_MS);
}

void handle_info(struct visit *visit) {
    static const struct relay_events events = {.on_message = on_json};
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    relay_call(relay_create(visit, sizeof(struct relay), &events), &client_get_info, &request.base,
               DEADLINE_MS);
}

void handle_healthz(struct visit *visit) {
    reply_text(visit->request, 200, "ok\n");
}

static void on_info(struct relay *relay, const ProtobufCMessage *message) {
    reply_text(relay_take_request(relay), 200, "ready\n");
}

void handle_readyz(struct visit *visit) {
    static const struct relay_events events = {.on_message = on_info};
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    relay_call(relay_create(visit, sizeof(struct relay), &events), &client_get_info, &request.base,
               DEADLINE_MS);
}

void handle_openapi(struct visit *visit) {
    reply_bytes(visit->request, "application/yaml", contract_text());
}

void handle_no_store(struct visit *visit) {
    reply_status(visit->request, FAMILY_TRACING, 501, "NOT_AVAILABLE",
                 "this gateway has no history store behind it; ask for a capture of the present at "
                 "/debug/pprof/profile");
}
