/* SPDX-License-Identifier: Apache-2.0
 *
 * The stacks of all threads as text, as the service writes it: nothing is kept on the server. */
#include "gateway/handlers.h"
#include "gateway/request/relay.h"
#include "gateway/request/reply.h"

#define DEADLINE_MS 60000

static void on_backtraces(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__Backtraces *backtraces = (const void *)message;
    reply_bytes(relay_take_request(relay), REPLY_TEXT, sonde_slice_of(backtraces->text));
}

void handle_task_backtraces(struct visit *visit) {
    static const struct relay_events events = {.on_message = on_backtraces};
    Sonde__V1__GetBacktracesRequest request = SONDE__V1__GET_BACKTRACES_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&visit->target);
    request.target = &selector;
    request.as_text = true;
    relay_call(relay_create(visit, sizeof(struct relay), &events), &client_get_backtraces,
               &request.base, DEADLINE_MS);
}
