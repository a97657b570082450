/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rpc/message.h"

#include "api/bytes.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define PIECE        ((size_t)16 << 10)
#define GZIP_OR_ZLIB (15 + 32) /* tells zlib to look at the header */

static sonde_err fail_size(size_t limit, struct sonde_diag *diag) {
    return sonde_fail(diag, SONDE_TOO_LARGE, "a message may have %zu bytes at most, uncompressed",
                      limit);
}

static sonde_err read_plain(const grpc_slice_buffer *from, size_t limit, grpc_slice *out,
                            struct sonde_diag *diag) {
    if (from->length > limit)
        return fail_size(limit, diag);
    if (from->count == 1) {
        *out = grpc_slice_ref(from->slices[0]);
        return SONDE_OK;
    }
    *out = grpc_slice_malloc(from->length);
    uint8_t *to = GRPC_SLICE_START_PTR(*out);
    for (size_t i = 0; i < from->count; i++) {
        memcpy(to, GRPC_SLICE_START_PTR(from->slices[i]), GRPC_SLICE_LENGTH(from->slices[i]));
        to += GRPC_SLICE_LENGTH(from->slices[i]);
    }
    return SONDE_OK;
}

/* Decompresses one piece of input. The buffer's limit stops it in the middle of a bomb. */
static int inflate_slice(z_stream *stream, const grpc_slice *slice, struct sonde_buf *buf) {
    uint8_t piece[PIECE];
    int code = Z_OK;
    stream->next_in = (Bytef *)(uintptr_t)GRPC_SLICE_START_PTR(*slice);
    stream->avail_in = (uInt)GRPC_SLICE_LENGTH(*slice);
    do {
        stream->next_out = piece;
        stream->avail_out = sizeof piece;
        code = inflate(stream, Z_NO_FLUSH);
        sonde_buf_append(buf, piece, sizeof piece - stream->avail_out);
    } while (code == Z_OK && !buf->failed && (stream->avail_in > 0 || stream->avail_out == 0));
    return code == Z_BUF_ERROR ? Z_OK : code;
}

static bool inflate_all(const grpc_slice_buffer *from, struct sonde_buf *buf) {
    z_stream stream = {.next_in = NULL};
    int code = inflateInit2(&stream, GZIP_OR_ZLIB);
    if (code != Z_OK)
        return false;
    for (size_t i = 0; i < from->count && code == Z_OK && !buf->failed; i++)
        code = inflate_slice(&stream, &from->slices[i], buf);
    inflateEnd(&stream);
    return code == Z_STREAM_END;
}

static sonde_err read_compressed(const grpc_slice_buffer *from, size_t limit, grpc_slice *out,
                                 struct sonde_diag *diag) {
    struct sonde_buf buf = {.limit = limit};
    bool is_whole = from->length <= limit && inflate_all(from, &buf);
    sonde_err err = SONDE_OK;
    if (from->length > limit || buf.failed)
        err = fail_size(limit, diag);
    else if (!is_whole)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the message cannot be decompressed");
    else
        *out = grpc_slice_from_copied_buffer(buf.data, buf.len);
    sonde_buf_finish(&buf);
    return err;
}

sonde_err sonde_message_read(const grpc_byte_buffer *bytes, size_t limit_bytes, grpc_slice *out,
                             struct sonde_diag *diag) {
    const grpc_slice_buffer *from = &bytes->data.raw.slice_buffer;
    *out = grpc_empty_slice();
    if (bytes->data.raw.compression == GRPC_COMPRESS_NONE)
        return read_plain(from, limit_bytes, out, diag);
    return read_compressed(from, limit_bytes, out, diag);
}
