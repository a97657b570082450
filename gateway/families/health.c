/* SPDX-License-Identifier: Apache-2.0
 *
 * Health checks: /healthz for the gateway itself, /readyz for the service behind it. */
#include "gateway/handlers.h"
#include "gateway/reply/relay.h"
#include "gateway/reply/reply.h"

#define DEADLINE_MS 5000

void handle_healthz(const struct request_context *context) {
    reply_text(context->request, 200, "ok\n");
}

static void on_info(struct relay *relay, const ProtobufCMessage *message) {
    reply_text(relay_take_request(relay), 200, "ready\n");
}

void handle_readyz(const struct request_context *context) {
    static const struct relay_events events = {.on_message = on_info};
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    relay_call(relay_create(context, sizeof(struct relay), &events), &client_get_info,
               &request.base, DEADLINE_MS);
}
