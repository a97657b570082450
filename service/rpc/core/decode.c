/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rpc/message.h"
#include "service/rpc/base/nesting.h"
#include "service/rpc/core/server_state.h"

#include <grpc/slice.h>

/* protobuf-c allocates many small blocks, and a few bytes of input can make it allocate much more
 * than their size. All of it comes from the call's arena, which has a limit. */
static void *arena_alloc(void *context, size_t size) {
    struct sonde_arena *arena = context;
    if (size > RPC_MAX_DECODED_BYTES || arena->total > RPC_MAX_DECODED_BYTES - size)
        return NULL;
    return sonde_arena_alloc(arena, size);
}

static void arena_free(void *context, void *memory) {
    (void)context;
    (void)memory;
}

sonde_err rpc_decode_bytes(const uint8_t *bytes, size_t len, const ProtobufCMessageDescriptor *type,
                           struct sonde_arena *arena, ProtobufCMessage **message,
                           struct sonde_diag *diag) {
    ProtobufCAllocator allocator = {arena_alloc, arena_free, arena};
    if (len > RPC_MAX_REQUEST_BYTES)
        return sonde_fail(diag, SONDE_TOO_LARGE, "a request may have %u bytes at most",
                          RPC_MAX_REQUEST_BYTES);
    if (!nesting_is_bounded(bytes, len, type))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the request nests messages more than %d levels deep",
                          NESTING_MAX_LEVELS);
    *message = protobuf_c_message_unpack(type, &allocator, len, bytes);
    if (!*message)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the request is not a %s message: check the client's .proto file",
                          type->name);
    return SONDE_OK;
}

sonde_err rpc_decode(grpc_byte_buffer *payload, const ProtobufCMessageDescriptor *type,
                     struct sonde_arena *arena, ProtobufCMessage **message,
                     struct sonde_diag *diag) {
    grpc_slice slice;
    sonde_err err = sonde_message_read(payload, RPC_MAX_REQUEST_BYTES, &slice, diag);
    if (err)
        return err;
    err = rpc_decode_bytes(GRPC_SLICE_START_PTR(slice), GRPC_SLICE_LENGTH(slice), type, arena,
                           message, diag);
    grpc_slice_unref(slice);
    return err;
}
