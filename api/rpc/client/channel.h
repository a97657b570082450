/* SPDX-License-Identifier: Apache-2.0
 *
 * Connections to one server. There is one, and after a change of the TLS files an older one for
 * each version that still has calls. A connection reconnects by itself within a second. Two
 * rpc_channels never share one, so that the gateway can keep long streams apart.
 *
 * Thread safety: any thread. */
#ifndef SONDE_API_RPC_CLIENT_CHANNEL_H
#define SONDE_API_RPC_CLIENT_CHANNEL_H

#include "api/error.h"
#include "api/os/secrets/tls_files.h"

#include <grpc/grpc.h>

struct rpc_channels;

/* A connection with one version of the TLS files. */
struct rpc_channel {
    grpc_channel *core;
    uint64_t version;
    size_t references; /* private */
};

struct rpc_channel_setting {
    const char *key; /* a name of gRPC, static */
    int value;
};
#define RPC_CHANNEL_MAX_SETTINGS 12

struct rpc_channels_options {
    const char *address;     /* in gRPC's form; the caller has checked it */
    const char *server_name; /* which the server's certificate must have; NULL = the address's */
    /* TLS if one of them is not NULL: files of its own, or files shared with others, which must
     * outlive it. */
    const struct tls_files_options *own_tls;
    struct tls_files *tls;
    const struct rpc_channel_setting *settings; /* beside those of every channel; copied */
    size_t setting_count;
};

/* Does not connect yet. grpc_init has been called. SONDE_INVALID_ARGUMENT (the files),
 * SONDE_PERMISSION_DENIED, SONDE_TOO_LARGE, SONDE_IO, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err rpc_channels_create(const struct rpc_channels_options *options,
                                             struct rpc_channels **channels,
                                             struct sonde_diag *diag);
/* After the last drop. NULL is fine. */
void rpc_channels_destroy(struct rpc_channels *channels);

/* A channel with the newest TLS files; the caller drops it. */
struct rpc_channel *rpc_channels_take(struct rpc_channels *channels);
void rpc_channels_drop(struct rpc_channels *channels, struct rpc_channel *channel);

#endif
