/* SPDX-License-Identifier: Apache-2.0
 *
 * Compressed gRPC messages: the first byte says where the message is split into slices, and the
 * second one is the limit in KiB. No result may be larger than the limit. */
#include "api/rpc/message.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sonde_diag diag = {0};
    if (size < 2)
        return 0;
    size_t limit = (size_t)data[1] << 10, len = size - 2, cut = data[0] < len ? data[0] : len;
    const char *bytes = (const char *)data + 2;
    grpc_slice out, parts[] = {grpc_slice_from_copied_buffer(bytes, cut),
                               grpc_slice_from_copied_buffer(bytes + cut, len - cut)};
    for (int algorithm = GRPC_COMPRESS_NONE; algorithm <= GRPC_COMPRESS_GZIP; algorithm++) {
        grpc_byte_buffer *message =
            grpc_raw_compressed_byte_buffer_create(parts, 2, (grpc_compression_algorithm)algorithm);
        sonde_err err = sonde_message_read(message, limit, &out, &diag);
        if (GRPC_SLICE_LENGTH(out) > limit || (err && GRPC_SLICE_LENGTH(out)))
            abort();
        grpc_slice_unref(out);
        grpc_byte_buffer_destroy(message);
    }
    grpc_slice_unref(parts[0]);
    grpc_slice_unref(parts[1]);
    return 0;
}
