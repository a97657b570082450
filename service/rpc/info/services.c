/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/info/services.h"

#include "service/rpc/core/server_state.h"

#include <string.h>

const char *rpc_service_name(size_t index) {
    static const char *const names[] = {"sonde.v1.Profiler",
                                        "sonde.v1.History",
                                        RPC_OTLP_SERVICE,
                                        "grpc.health.v1.Health",
                                        "grpc.reflection.v1.ServerReflection",
                                        "grpc.reflection.v1alpha.ServerReflection"};
    return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}

bool rpc_serves(const struct rpc_server *server, const char *service) {
    if (strcmp(service, "sonde.v1.Profiler") == 0)
        return server->engine != NULL;
    bool needs_history =
        strcmp(service, "sonde.v1.History") == 0 || strcmp(service, RPC_OTLP_SERVICE) == 0;
    return !needs_history || server->history != NULL;
}
