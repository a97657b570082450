/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes of a result, chunk by chunk, without copying them: a message is the few bytes of a
 * CaptureEvent's head, written here, and a view of the result, which stays until the last view of
 * it has left (also after its call). Loop thread. */
#ifndef SONDE_SERVICE_RPC_CORE_CHUNK_H
#define SONDE_SERVICE_RPC_CORE_CHUNK_H

#include "api/bytes.h"
#include "service/rpc/core/call.h"

#define RPC_MAX_RESULT_BYTES (1u << 30)
#define RPC_MAX_CHUNK_BYTES  (512u << 10)
#define RPC_CHUNK_HEAD_BYTES 6

/* Zeroed = nothing. */
struct rpc_chunks {
    grpc_slice whole;
    size_t sent;
};

void rpc_chunks_take(struct rpc_chunks *chunks, struct sonde_buf *bytes);
void rpc_chunks_finish(struct rpc_chunks *chunks);
size_t rpc_chunks_size(const struct rpc_chunks *chunks);
bool rpc_chunks_has_next(const struct rpc_chunks *chunks);
/* The next one; there must be one. */
void rpc_chunks_send(struct rpc_chunks *chunks, struct rpc_call *call);

/* A chunk of the caller's own, at most RPC_MAX_CHUNK_BYTES; taken. */
void rpc_send_chunk(struct rpc_call *call, grpc_slice bytes);

/* What stands before the bytes in a CaptureEvent that holds nothing but so many of them; its
 * length. */
size_t rpc_chunk_head(uint8_t head[RPC_CHUNK_HEAD_BYTES], uint32_t len);

#endif
