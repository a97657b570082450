/* SPDX-License-Identifier: Apache-2.0
 *
 * The method table: the methods of sonde.v1, and those that every gRPC server is expected to have.
 * Decoding, access control, cancellation and the log line are common to all methods. */
#include "service/rpc/method_table.h"

#include "proto/grpc/health/v1/health.pb-c.h"
#include "proto/grpc/reflection/v1alpha/reflection.pb-c.h"
#include "proto/opentelemetry/profiles_service.pb-c.h"
#include "proto/sonde/v1/history.pb-c.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/info/services.h"

#define SONDE(service, method, name, kind, scope, effect, reach, request) \
    {"/sonde.v1." service "/" #method,                                    \
     RPC_##kind,                                                          \
     RPC_SCOPE_##scope,                                                   \
     RPC_EFFECT_##effect,                                                 \
     RPC_REACH_##reach,                                                   \
     &sonde__v1__##request##__descriptor,                                 \
     rpc_##name},
#define PROFILER(method, name, kind, scope, effect, reach, request, response) \
    SONDE("Profiler", method, name, kind, scope, effect, reach, request)
#define HISTORY(method, name, kind, scope, effect, reach, request, response) \
    SONDE("History", method, name, kind, scope, effect, reach, request)
#define CONTROLLER(method, name, request, response)

#define OTLP(name) opentelemetry__proto__collector__profiles__v1development__##name
#define HEALTH(name, kind, start)                                                          \
    {                                                                                      \
        "/grpc.health.v1.Health/" name, RPC_##kind, RPC_SCOPE_NONE, RPC_EFFECT_NONE,       \
            RPC_REACH_FILTERED, &grpc__health__v1__health_check_request__descriptor, start \
    }
#define REFLECTION(version)                                                                \
    {                                                                                      \
        "/grpc.reflection." version ".ServerReflection/ServerReflectionInfo", RPC_BIDI,    \
            RPC_SCOPE_READ, RPC_EFFECT_NONE, RPC_REACH_FILTERED,                           \
            &grpc__reflection__v1alpha__server_reflection_request__descriptor, rpc_reflect \
    }

const struct rpc_method rpc_methods[] = {
#include "proto/sonde/v1/methods.inc"
    {"/" RPC_OTLP_SERVICE "/Export", RPC_UNARY, RPC_SCOPE_CONTROL, RPC_EFFECT_STATE,
     RPC_REACH_SHARED, &OTLP(export_profiles_service_request__descriptor), rpc_otlp_export},
    HEALTH("Check", UNARY, rpc_health_check),
    HEALTH("Watch", STREAM, rpc_health_watch),
    REFLECTION("v1"),
    REFLECTION("v1alpha"),
};

const size_t rpc_method_count = sizeof rpc_methods / sizeof rpc_methods[0];
