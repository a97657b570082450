/* SPDX-License-Identifier: Apache-2.0
 *
 * The gRPC service: sonde.v1.Profiler over an engine, sonde.v1.History over a store,
 * grpc.health.v1.Health and server reflection.
 *
 * One thread runs everything (loop.h); slow work runs on workers. Addresses are `unix:PATH` and
 * `HOST:PORT` (port 0 = the kernel chooses).
 *
 * Access control: unix sockets (guarded by their permissions) and loopback accept the service's own
 * user and root. Other users of the machine need a token. Other addresses require a token, a client
 * certificate, or the explicit `insecure`. A server with a token file checks every token it
 * receives, on any address, so that a gateway can pass on the tokens of its clients.
 *
 * Life: the engine must outlive the server. Thread safety: one thread at a time per server. */
#ifndef SONDE_SERVICE_RPC_SERVER_H
#define SONDE_SERVICE_RPC_SERVER_H

#include "service/rpc/core/server_options.h"

struct rpc_server;

/* Binds every address and starts to serve. SONDE_INVALID_ARGUMENT (an address, a file),
 * SONDE_PERMISSION_DENIED (an address that others can reach, without token, certificate or
 * `insecure`), SONDE_NOT_AVAILABLE (another process serves that unix socket), SONDE_IO. */
SONDE_MUST_USE sonde_err rpc_server_create(const struct rpc_server_options *options,
                                           struct rpc_server **server, struct sonde_diag *diag);

/* The bound address, in the form it was given: "unix:/run/x.sock", "127.0.0.1:41234". NULL past the
 * last. Valid until rpc_server_destroy. */
const char *rpc_server_address(const struct rpc_server *server, size_t index);

/* Refuses new calls, ends endless streams at once (UNAVAILABLE) and cancels the other calls after
 * grace_ms. Returns when no call is left and the sockets have been removed. */
void rpc_server_stop(struct rpc_server *server, unsigned grace_ms);

/* Stops without grace if rpc_server_stop has not been called. NULL is fine. */
void rpc_server_destroy(struct rpc_server *server);

#endif
