/* SPDX-License-Identifier: Apache-2.0
 *
 * The channel of outgoing calls, and its credentials. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_OUTGOING_OUTGOING_CHANNEL_H
#define SONDE_SERVICE_RPC_OUTGOING_OUTGOING_CHANNEL_H

#include "service/rpc/outgoing/outgoing.h"

#include <grpc/grpc.h>

/* The caller frees it with grpc_channel_destroy. Errors: those of rpc_outgoing_create. */
SONDE_MUST_USE sonde_err outgoing_channel_create(const struct rpc_outgoing_options *options,
                                                 grpc_channel **channel, struct sonde_diag *diag);

#endif
