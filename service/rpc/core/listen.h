/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses, checks, locks and binds the addresses of the server.
 *
 * gRPC unlinks a unix socket's path before it binds, so a second server would silently take the
 * path from the first. Therefore each server first locks PATH.lock; only its holder may bind
 * PATH. */
#ifndef SONDE_SERVICE_RPC_CORE_LISTEN_H
#define SONDE_SERVICE_RPC_CORE_LISTEN_H

#include "api/error.h"
#include "service/rpc/core/credentials.h"
#include "service/rpc/core/server_options.h"

#include <grpc/grpc.h>
#include <stdbool.h>

#define RPC_MAX_ADDRESSES 16

struct rpc_listener {
    char address[300]; /* as bound */
    char lock_path[120];
    int lock_fd; /* -1 = none */
    struct rpc_tls_user tls;
};

struct rpc_listeners {
    struct rpc_listener items[RPC_MAX_ADDRESSES];
    size_t count;
};

/* The parts of unix:PATH or HOST:PORT. */
struct rpc_address {
    const char *path; /* NULL for TCP; points into the text */
    char host[256];   /* without brackets */
    unsigned port;
    bool is_loopback;
};

/* SONDE_INVALID_ARGUMENT. Resolves host names, so it may block. */
SONDE_MUST_USE sonde_err rpc_address_parse(const char *text, struct rpc_address *address,
                                           struct sonde_diag *diag);

/* tls: of all TCP addresses; NULL = plaintext. It must outlive the server. */
SONDE_MUST_USE sonde_err rpc_listen(struct rpc_listeners *listeners, grpc_server *server,
                                    const struct rpc_server_options *options, struct tls_files *tls,
                                    struct sonde_diag *diag);
/* Removes our sockets and locks. Call it after the server has been destroyed. */
void rpc_listeners_finish(struct rpc_listeners *listeners);

#endif
