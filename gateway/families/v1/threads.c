/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/threads: the stacks of all threads of the target at this moment as JSON. */
#include "gateway/handlers.h"
#include "gateway/reply/relay.h"
#include "gateway/reply/reply.h"

#define DEADLINE_MS 60000

static sonde_err read_request(const struct query *query, Sonde__V1__GetBacktracesRequest *request,
                              struct sonde_diag *diag) {
    uint64_t depth = 0, threads = 0, tid = 0;
    sonde_err err = query_whole(query, "max_depth", 2, 4096, &depth, diag);
    if (!err)
        err = query_whole(query, "max_threads", 1, 100000, &threads, diag);
    if (!err)
        err = query_whole(query, "tid", 1, INT32_MAX, &tid, diag);
    request->max_depth = (uint32_t)depth;
    request->max_threads = (uint32_t)threads;
    request->tid = (int32_t)tid;
    return err;
}

static void answer_head(struct relay *relay) {
    reply_bytes(relay_take_request(relay), REPLY_JSON, (struct sonde_slice){0});
}

void handle_v1_threads(const struct request_context *context) {
    static const struct relay_events events = {.on_message = relay_answer_json};
    Sonde__V1__GetBacktracesRequest request = SONDE__V1__GET_BACKTRACES_REQUEST__INIT;
    Sonde__V1__TargetSelector selector = relay_selector(&context->target);
    struct sonde_diag diag = {0};
    sonde_err err = read_request(&context->query, &request, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
        return;
    }
    struct relay *relay = relay_create(context, sizeof *relay, &events);
    request.target = &selector;
    if (context->head)
        relay_check_target(relay, answer_head);
    else
        relay_call(relay, &client_get_backtraces, &request.base, DEADLINE_MS);
}
