/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS credentials of the server. */
#ifndef SONDE_SERVICE_RPC_CORE_CREDENTIALS_H
#define SONDE_SERVICE_RPC_CORE_CREDENTIALS_H

#include "api/error.h"
#include "service/rpc/core/server.h"

#include <grpc/grpc_security.h>

/* For TCP addresses: TLS if there is a certificate, otherwise plaintext. The caller releases them.
 * SONDE_INVALID_ARGUMENT, SONDE_IO, SONDE_PERMISSION_DENIED (others can read the key file). */
SONDE_MUST_USE sonde_err rpc_credentials_create(const struct rpc_server_options *options,
                                                grpc_server_credentials **credentials,
                                                struct sonde_diag *diag);

#endif
