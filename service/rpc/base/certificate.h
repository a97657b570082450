/* SPDX-License-Identifier: Apache-2.0
 *
 * The names in a client's certificate, which the TLS handshake has verified. Thread safety: any
 * thread. */
#ifndef SONDE_SERVICE_RPC_BASE_CERTIFICATE_H
#define SONDE_SERVICE_RPC_BASE_CERTIFICATE_H

#include <grpc/grpc.h>
#include <stdbool.h>
#include <stddef.h>

/* Whether the common name or a DNS name of the certificate is one of these: the whole name, in
 * upper or lower case; a wildcard in a certificate matches nothing else. False without a
 * certificate. */
bool rpc_certificate_is_listed(grpc_call *call, const char *const *names, size_t count);
/* The common name, otherwise the first DNS name, cut to size; "" without a certificate. May have
 * any bytes but NUL. */
void rpc_certificate_name(grpc_call *call, char *out, size_t size);

#endif
