/* SPDX-License-Identifier: Apache-2.0
 *
 * The gRPC service: sonde.v1.Profiler, grpc.health.v1.Health and server reflection, over one
 * engine.
 *
 * One thread runs everything (loop.h); what takes long runs on the engine's workers. Addresses are
 * `unix:PATH` and `HOST:PORT` (port 0 = the kernel chooses). Who is let in: on unix sockets (the
 * folder's permissions guard them) and loopback everybody; anywhere else a token, a client
 * certificate, or the explicit `insecure`. A service that knows tokens wants every token that is
 * sent to be right, wherever it is sent, so a gateway may pass its clients' tokens on.
 *
 * Life: the engine must outlive the server. Thread safety: one thread at a time per server. */
#ifndef SONDE_SERVICE_RPC_CORE_SERVER_H
#define SONDE_SERVICE_RPC_CORE_SERVER_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;
struct rpc_server;

struct rpc_server_options {
    struct engine *engine;
    const char *const *addresses;
    size_t address_count; /* 1..16 */
    /* Lines `TOKEN` or `TOKEN read` or `TOKEN read,control`, '#' comments; not readable by others.
     * No scope means all. read: look and capture; control: also start and stop sessions. */
    const char *token_file;
    bool token_everywhere; /* ask for a token on unix sockets and loopback too */
    /* PEM. TLS on every TCP address when cert_file is set; with client_ca_file clients must show a
     * certificate that it signed. */
    const char *cert_file, *key_file, *client_ca_file;
    bool insecure;            /* other addresses than loopback without token and certificate */
    bool redact_command_line; /* GetCommandLine answers argument 0 alone */
    /* Where captures are kept (kept.h), and how many; NULL: nowhere; 0: 64 and 256 MiB. */
    const char *captures_dir;
    uint32_t captures;
    uint64_t capture_bytes;
    unsigned unix_mode; /* of unix sockets; 0 = 0600 */
    /* One line per answered call, without newline, from the server's thread; NULL = none. */
    void (*log)(void *context, const char *line);
    void *log_context;
};

/* Binds every address and answers from then on. SONDE_INVALID_ARGUMENT (an address, a file),
 * SONDE_PERMISSION_DENIED (an open address without token, certificate or `insecure`),
 * SONDE_NOT_AVAILABLE (another process serves that unix socket), SONDE_IO. */
SONDE_MUST_USE sonde_err rpc_server_create(const struct rpc_server_options *options,
                                           struct rpc_server **server, struct sonde_diag *diag);

/* The address as it is bound, in the form it was given: "unix:/run/x.sock", "127.0.0.1:41234".
 * NULL past the last. Valid until rpc_server_destroy. */
const char *rpc_server_address(const struct rpc_server *server, size_t index);

/* Refuses new calls, ends the endless streams at once (UNAVAILABLE), gives the others grace_ms,
 * then cancels them; returns when no call is left and the sockets are gone. */
void rpc_server_stop(struct rpc_server *server, unsigned grace_ms);

/* Stops with no grace when that has not been done; NULL is fine. */
void rpc_server_destroy(struct rpc_server *server);

#endif
