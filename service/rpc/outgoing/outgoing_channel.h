/* SPDX-License-Identifier: Apache-2.0
 *
 * The channel of outgoing calls, and its credentials. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_OUTGOING_OUTGOING_CHANNEL_H
#define SONDE_SERVICE_RPC_OUTGOING_OUTGOING_CHANNEL_H

#include "service/rpc/outgoing/outgoing.h"

#include <grpc/grpc.h>

struct tls_files;

/* Zeroed = closed. One thread at a time. */
struct outgoing_channel {
    grpc_channel *core;
    char *address;
    struct tls_files *tls; /* NULL = plaintext */
    uint64_t version;      /* of the files that core uses */
    uint32_t max_answer, keepalive_ms;
    bool is_compressed;
};

/* The caller closes it, also after an error. Errors: those of rpc_outgoing_create. */
SONDE_MUST_USE sonde_err outgoing_channel_open(const struct rpc_outgoing_options *options,
                                               struct outgoing_channel *channel,
                                               struct sonde_diag *diag);
/* Replaces core if the TLS files have changed. Not while a call is running. */
void outgoing_channel_renew(struct outgoing_channel *channel);
void outgoing_channel_close(struct outgoing_channel *channel);

#endif
