/* SPDX-License-Identifier: Apache-2.0
 *
 * The handlers that the method table (method_table.c) names: rpc_get_info for GetInfo. */
#ifndef SONDE_SERVICE_RPC_CORE_HANDLERS_H
#define SONDE_SERVICE_RPC_CORE_HANDLERS_H

#include "service/rpc/core/call.h"

typedef void rpc_handler(struct rpc_call *call, const ProtobufCMessage *request);

#define PROFILER(method, name, ...) rpc_handler rpc_##name;
#define HISTORY                     PROFILER
#define CONTROLLER(...)
#include "proto/sonde/v1/methods.inc"

rpc_handler rpc_otlp_export;
rpc_handler rpc_health_check, rpc_health_watch;
rpc_handler rpc_reflect;

#endif
