/* SPDX-License-Identifier: Apache-2.0
 *
 * Sends a result in chunks without copying it. A message consists of a CaptureEvent's header, a few
 * bytes written here, and a slice of the result. The result is freed when its last slice has left,
 * which may be after the call has ended. Thread safety: loop thread. */
#ifndef SONDE_SERVICE_RPC_ANSWER_CHUNK_H
#define SONDE_SERVICE_RPC_ANSWER_CHUNK_H

#include "api/bytes.h"
#include "service/rpc/core/call.h"

#define RPC_MAX_RESULT_BYTES (1u << 30)
#define RPC_MAX_CHUNK_BYTES  (512u << 10)
#define RPC_CHUNK_HEAD_BYTES 6

/* Zeroed = empty. */
struct rpc_chunks {
    grpc_slice whole;
    size_t sent;
};

void rpc_chunks_take(struct rpc_chunks *chunks, struct sonde_buf *bytes);
void rpc_chunks_finish(struct rpc_chunks *chunks);
bool rpc_chunks_has_next(const struct rpc_chunks *chunks);
/* Sends the next chunk; there must be one. */
void rpc_chunks_send(struct rpc_chunks *chunks, struct rpc_call *call);

/* Sends a chunk of at most RPC_MAX_CHUNK_BYTES; takes the slice. */
void rpc_send_chunk(struct rpc_call *call, grpc_slice bytes);

/* Writes the header of a CaptureEvent whose only field is a chunk of `len` bytes. Returns the
 * header's length. */
size_t rpc_chunk_head(uint8_t head[RPC_CHUNK_HEAD_BYTES], uint32_t len);

#endif
