/* SPDX-License-Identifier: Apache-2.0
 *
 * grpc.health.v1: SERVING until shutdown begins. Watch sends the status at once and again at
 * shutdown. */
#include "proto/grpc/health/v1/health.pb-c.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/info/services.h"

#include <string.h>

static Grpc__Health__V1__HealthCheckResponse__ServingStatus
status_of(const struct rpc_server *server, const char *service) {
    bool is_served = *service == 0;
    for (size_t i = 0; rpc_service_name(i); i++)
        is_served =
            is_served || (strcmp(service, rpc_service_name(i)) == 0 && rpc_serves(server, service));
    if (!is_served)
        return GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN;
    return server->stopping ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING
                            : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING;
}

void rpc_health_check(struct rpc_call *call, const ProtobufCMessage *message) {
    const Grpc__Health__V1__HealthCheckRequest *request = (const void *)message;
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    struct sonde_diag diag = {0};
    response.status = status_of(rpc_call_server(call), request->service);
    if (response.status == GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVICE_UNKNOWN)
        rpc_finish(call, sonde_fail(&diag, SONDE_NOT_FOUND, "unknown service"), &diag);
    else
        rpc_reply(call, &response.base);
}

static void send_status(struct rpc_call *call) {
    const Grpc__Health__V1__HealthCheckRequest *request = rpc_call_state(call);
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    response.status = status_of(rpc_call_server(call), request->service);
    rpc_send(call, &response.base);
}

/* If the first status is still on its way, the last one follows when it has left. */
static void on_stop(struct rpc_call *call) {
    struct sonde_diag diag = {0};
    if (rpc_call_sending(call))
        return;
    send_status(call);
    rpc_finish(call, sonde_fail(&diag, SONDE_UNAVAILABLE, "the service is stopping"), &diag);
}

static void on_sent(struct rpc_call *call) {
    if (rpc_call_server(call)->stopping)
        on_stop(call);
}

/* The state is the request, which lives as long as the call. */
void rpc_health_watch(struct rpc_call *call, const ProtobufCMessage *message) {
    static const struct rpc_call_events events = {.on_sent = on_sent, .on_stop = on_stop};
    rpc_call_set(call, &events, (void *)message);
    send_status(call);
}
