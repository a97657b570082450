/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a received gRPC message, decompressed within a bound. gRPC itself decompresses a
 * message in full before it looks at its limit, so a message of 2 MB can fill 2 GB. Every server
 * and channel of Sonde sets GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION to 0 and reads its messages
 * here. Thread safety: any thread. */
#ifndef SONDE_API_RPC_MESSAGE_H
#define SONDE_API_RPC_MESSAGE_H

#include "api/error.h"

#include <grpc/grpc.h>

/* Stores the message in *out, a slice that the caller unrefs; it is empty after an error. bytes
 * stay the caller's. limit_bytes bounds the decompressed size. Errors: SONDE_TOO_LARGE,
 * SONDE_INVALID_ARGUMENT for broken compressed data, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err sonde_message_read(const grpc_byte_buffer *bytes, size_t limit_bytes,
                                            grpc_slice *out, struct sonde_diag *diag);

#endif
