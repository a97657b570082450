/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/answer/chunk.h"

#include "bazel/shims/grpc_core/tsan.h"

#include <stdlib.h>

#define CHUNK_FIELD     3 /* CaptureEvent.chunk in profiler.proto */
#define LENGTH_FOLLOWED 2 /* protobuf's wire type for bytes */

/* Runs on whichever gRPC thread drops the last slice. */
static void free_bytes(void *bytes) {
    core_tag_came(bytes);
    free(bytes);
}

void rpc_chunks_take(struct rpc_chunks *chunks, struct sonde_buf *bytes) {
    size_t len;
    char *data = sonde_buf_take(bytes, &len);
    rpc_chunks_finish(chunks);
    if (!data)
        return;
    core_tag_sent(data);
    chunks->whole = grpc_slice_new(data, len, free_bytes);
}

void rpc_chunks_finish(struct rpc_chunks *chunks) {
    grpc_slice_unref(chunks->whole);
    *chunks = (struct rpc_chunks){.sent = 0};
}

bool rpc_chunks_has_next(const struct rpc_chunks *chunks) {
    return chunks->sent < GRPC_SLICE_LENGTH(chunks->whole);
}

void rpc_chunks_send(struct rpc_chunks *chunks, struct rpc_call *call) {
    size_t left = GRPC_SLICE_LENGTH(chunks->whole) - chunks->sent, start = chunks->sent;
    chunks->sent += left < RPC_MAX_CHUNK_BYTES ? left : RPC_MAX_CHUNK_BYTES;
    rpc_send_chunk(call, grpc_slice_sub(chunks->whole, start, chunks->sent));
}

size_t rpc_chunk_head(uint8_t head[RPC_CHUNK_HEAD_BYTES], uint32_t len) {
    size_t used = 0;
    head[used++] = CHUNK_FIELD << 3 | LENGTH_FOLLOWED;
    for (; len > 0x7f; len >>= 7)
        head[used++] = (uint8_t)(len | 0x80);
    head[used++] = (uint8_t)len;
    return used;
}

void rpc_send_chunk(struct rpc_call *call, grpc_slice bytes) {
    uint8_t head[RPC_CHUNK_HEAD_BYTES];
    size_t used = rpc_chunk_head(head, (uint32_t)GRPC_SLICE_LENGTH(bytes));
    grpc_slice message[] = {grpc_slice_from_copied_buffer((const char *)head, used), bytes};
    rpc_send_slices(call, message, 2);
}
