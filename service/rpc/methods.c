/* SPDX-License-Identifier: Apache-2.0
 *
 * The method table. A new method is a new row and a handler; unknown paths, decoding, access,
 * cancellation and the log line are the same for all. */
#include "proto/grpc/health/v1/health.pb-c.h"
#include "proto/grpc/reflection/v1alpha/reflection.pb-c.h"
#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/handlers.h"
#include "service/rpc/inside.h"

#define PROFILER      "/sonde.v1.Profiler/"
#define HEALTH        "/grpc.health.v1.Health/"
#define MESSAGE(name) &sonde__v1__##name##__descriptor
#define HEALTH_CHECK  &grpc__health__v1__health_check_request__descriptor
#define REFLECTION    &grpc__reflection__v1alpha__server_reflection_request__descriptor

/* clang-format off */
const struct rpc_method rpc_methods[] = {
    {PROFILER "GetInfo", RPC_UNARY, RPC_SCOPE_READ, MESSAGE(get_info_request), rpc_get_info},
    {PROFILER "ListTargets", RPC_UNARY, RPC_SCOPE_READ, MESSAGE(list_targets_request), rpc_list_targets},
    {PROFILER "WatchTargets", RPC_STREAM, RPC_SCOPE_READ, MESSAGE(watch_targets_request), rpc_watch_targets},
    {PROFILER "CaptureCpu", RPC_STREAM, RPC_SCOPE_READ, MESSAGE(capture_cpu_request), rpc_capture_cpu},
    {PROFILER "StreamCpu", RPC_STREAM, RPC_SCOPE_READ, MESSAGE(stream_cpu_request), rpc_stream_cpu},
    {PROFILER "StartCpu", RPC_UNARY, RPC_SCOPE_CONTROL, MESSAGE(start_cpu_request), rpc_start_cpu},
    {PROFILER "StopCpu", RPC_STREAM, RPC_SCOPE_CONTROL, MESSAGE(stop_cpu_request), rpc_stop_cpu},
    {PROFILER "Symbolize", RPC_UNARY, RPC_SCOPE_READ, MESSAGE(symbolize_request), rpc_symbolize},
    {PROFILER "GetCommandLine", RPC_UNARY, RPC_SCOPE_READ, MESSAGE(get_command_line_request), rpc_get_command_line},
    {HEALTH "Check", RPC_UNARY, RPC_SCOPE_NONE, HEALTH_CHECK, rpc_health_check},
    {HEALTH "Watch", RPC_STREAM, RPC_SCOPE_NONE, HEALTH_CHECK, rpc_health_watch},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", RPC_BIDI, RPC_SCOPE_READ, REFLECTION, rpc_reflect},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", RPC_BIDI, RPC_SCOPE_READ, REFLECTION, rpc_reflect},
};
/* clang-format on */

const size_t rpc_method_count = sizeof rpc_methods / sizeof rpc_methods[0];

const char *rpc_service_name(size_t index) {
    static const char *const names[] = {"sonde.v1.Profiler", "grpc.health.v1.Health",
                                        "grpc.reflection.v1.ServerReflection",
                                        "grpc.reflection.v1alpha.ServerReflection"};
    return index < sizeof names / sizeof names[0] ? names[index] : NULL;
}
