/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's side of TLS. */
#ifndef SONDE_SERVICE_RPC_CORE_CREDENTIALS_H
#define SONDE_SERVICE_RPC_CORE_CREDENTIALS_H

#include "api/error.h"
#include "service/rpc/core/server.h"

#include <grpc/grpc_security.h>

/* For TCP addresses: TLS when there is a certificate, otherwise plain. The caller releases it.
 * SONDE_INVALID_ARGUMENT, SONDE_IO, SONDE_PERMISSION_DENIED (a key that everybody may read). */
SONDE_MUST_USE sonde_err rpc_credentials_create(const struct rpc_server_options *options,
                                                grpc_server_credentials **credentials,
                                                struct sonde_diag *diag);

#endif
