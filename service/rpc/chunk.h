/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a result, chunk by chunk. Loop thread. */
#ifndef SONDE_SERVICE_RPC_CHUNK_H
#define SONDE_SERVICE_RPC_CHUNK_H

#include "api/bytes.h"
#include "service/rpc/call.h"

#define RPC_MAX_RESULT_BYTES (1u << 30)

/* The next one, of those after *sent, which grows; there must be some. */
void rpc_send_chunk(struct rpc_call *call, const struct sonde_buf *bytes, size_t *sent);

#endif
