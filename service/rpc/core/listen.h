/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses: read, judged, locked and bound.
 *
 * gRPC unlinks a unix path and binds it again, so that a second server would silently take it from
 * the first: whoever holds the lock on PATH.lock is the one who serves PATH. */
#ifndef SONDE_SERVICE_RPC_CORE_LISTEN_H
#define SONDE_SERVICE_RPC_CORE_LISTEN_H

#include "api/error.h"
#include "service/rpc/core/server.h"

#include <grpc/grpc.h>
#include <stdbool.h>

#define RPC_MAX_ADDRESSES 16

struct rpc_listener {
    char address[300]; /* as bound */
    char lock_path[120];
    int lock_fd; /* -1 = none */
};

struct rpc_listeners {
    struct rpc_listener items[RPC_MAX_ADDRESSES];
    size_t count;
};

/* unix:PATH or HOST:PORT taken apart. */
struct rpc_address {
    const char *path; /* NULL for TCP; points into the text */
    char host[256];   /* without brackets */
    unsigned port;
    bool is_loopback;
};

/* SONDE_INVALID_ARGUMENT with a sentence. Looks names up, so it may wait. */
SONDE_MUST_USE sonde_err rpc_address_parse(const char *text, struct rpc_address *address,
                                           struct sonde_diag *diag);

SONDE_MUST_USE sonde_err rpc_listen(struct rpc_listeners *listeners, grpc_server *server,
                                    const struct rpc_server_options *options,
                                    struct sonde_diag *diag);
/* Removes sockets and locks that are ours. After the server is destroyed. */
void rpc_listeners_finish(struct rpc_listeners *listeners);

#endif
