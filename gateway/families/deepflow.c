/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepFlow's query of continuous profiles, /v1/profile/ProfileTracing, without a history store. */
#include "gateway/handlers.h"
#include "gateway/reply/reply.h"

void handle_no_store(const struct request_context *context) {
    reply_status(context->request, FAMILY_TRACING, 501, "NOT_AVAILABLE",
                 "this gateway has no history store; capture a profile now at "
                 "/debug/pprof/profile");
}
