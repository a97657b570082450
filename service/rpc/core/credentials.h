/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS credentials of the server, which follow its files: each handshake uses the newest certificate
 * and client CA (api/os/secrets/tls_files.h). Connections that exist already keep theirs. */
#ifndef SONDE_SERVICE_RPC_CORE_CREDENTIALS_H
#define SONDE_SERVICE_RPC_CORE_CREDENTIALS_H

#include "api/error.h"
#include "api/os/secrets/tls_files.h"
#include "service/rpc/core/server_options.h"

#include <grpc/grpc_security.h>
#include <stdatomic.h>

/* Which version of the files one listener uses; it must outlive the credentials. */
struct rpc_tls_user {
    struct tls_files *files;
    bool asks_client;
    atomic_uint_fast64_t version;
};

/* *files NULL without TLS. SONDE_INVALID_ARGUMENT, SONDE_IO, SONDE_PERMISSION_DENIED (others can
 * read the key file). */
SONDE_MUST_USE sonde_err rpc_tls_open(const struct rpc_server_options *options,
                                      struct tls_files **files, struct sonde_diag *diag);
/* For a TCP address: TLS if user->files, otherwise plaintext. The caller releases them; NULL when
 * out of memory. */
grpc_server_credentials *rpc_credentials_create(struct rpc_tls_user *user);

#endif
