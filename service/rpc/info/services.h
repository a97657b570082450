/* SPDX-License-Identifier: Apache-2.0
 *
 * The services whose methods are in the method table. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_INFO_SERVICES_H
#define SONDE_SERVICE_RPC_INFO_SERVICES_H

#include <stdbool.h>
#include <stddef.h>

/* The collector service of OpenTelemetry's profiles. */
#define RPC_OTLP_SERVICE "opentelemetry.proto.collector.profiles.v1development.ProfilesService"

struct rpc_server;

/* NULL past the last. */
const char *rpc_service_name(size_t index);
/* Whether this server can answer calls of that service. */
bool rpc_serves(const struct rpc_server *server, const char *service);

#endif
