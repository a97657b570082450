/* SPDX-License-Identifier: Apache-2.0 */
#include "api/rpc/message.h"
#include "tests/unit/check.h"

#include <grpc/byte_buffer.h>
#include <grpc/slice.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define MIB ((size_t)1 << 20)

/* A message of `len` equal bytes, compressed as one or as two slices. bits: zlib's window. */
static grpc_byte_buffer *compressed(size_t len, int bits, bool is_split) {
    z_stream stream = {.next_in = NULL};
    unsigned char *plain = malloc(len + 1);
    uLong room = len + 100;
    grpc_slice slice = grpc_slice_malloc(room);
    memset(plain, 'x', len);
    CHECK(deflateInit2(&stream, 9, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    stream.next_in = plain;
    stream.avail_in = (uInt)len;
    stream.next_out = GRPC_SLICE_START_PTR(slice);
    stream.avail_out = (uInt)room;
    CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    grpc_slice parts[] = {grpc_slice_sub(slice, 0, 5), grpc_slice_sub(slice, 5, stream.total_out)};
    grpc_slice whole = grpc_slice_sub(slice, 0, stream.total_out);
    grpc_byte_buffer *bytes =
        is_split ? grpc_raw_compressed_byte_buffer_create(parts, 2, GRPC_COMPRESS_GZIP)
                 : grpc_raw_compressed_byte_buffer_create(&whole, 1, GRPC_COMPRESS_GZIP);
    deflateEnd(&stream);
    grpc_slice_unref(parts[0]);
    grpc_slice_unref(parts[1]);
    grpc_slice_unref(whole);
    grpc_slice_unref(slice);
    free(plain);
    return bytes;
}

static sonde_err read_all(grpc_byte_buffer *bytes, size_t limit, size_t *len) {
    struct sonde_diag diag = {0};
    grpc_slice out;
    sonde_err err = sonde_message_read(bytes, limit, &out, &diag);
    *len = GRPC_SLICE_LENGTH(out);
    CHECK(*len == 0 || GRPC_SLICE_START_PTR(out)[*len - 1] == 'x');
    grpc_slice_unref(out);
    grpc_byte_buffer_destroy(bytes);
    return err;
}

TEST(a_message_of_gzip_or_deflate_is_decompressed) {
    size_t len;
    CHECK(read_all(compressed(100000, 15 + 16, false), MIB, &len) == SONDE_OK && len == 100000);
    CHECK(read_all(compressed(100000, 15, true), MIB, &len) == SONDE_OK && len == 100000);
    CHECK(read_all(compressed(0, 15 + 16, true), MIB, &len) == SONDE_OK && len == 0);
}

TEST(a_message_of_exactly_the_limit_is_read_and_one_more_byte_is_refused) {
    size_t len;
    CHECK(read_all(compressed(MIB, 15 + 16, true), MIB, &len) == SONDE_OK && len == MIB);
    CHECK(read_all(compressed(MIB + 1, 15 + 16, true), MIB, &len) == SONDE_TOO_LARGE && len == 0);
    CHECK(read_all(compressed(256 * MIB, 15 + 16, false), MIB, &len) == SONDE_TOO_LARGE);
}

TEST(a_truncated_or_broken_message_is_refused) {
    size_t len;
    grpc_slice broken = grpc_slice_from_static_string("\x1f\x8b\x08 not gzip at all");
    grpc_slice empty = grpc_empty_slice();
    CHECK(read_all(grpc_raw_compressed_byte_buffer_create(&broken, 1, GRPC_COMPRESS_GZIP), MIB,
                   &len) == SONDE_INVALID_ARGUMENT);
    CHECK(read_all(grpc_raw_compressed_byte_buffer_create(&empty, 1, GRPC_COMPRESS_DEFLATE), MIB,
                   &len) == SONDE_INVALID_ARGUMENT);
}

TEST(a_message_that_is_not_compressed_is_read_within_the_limit) {
    size_t len;
    grpc_slice parts[] = {grpc_slice_from_static_string("ab"), grpc_slice_from_static_string("x")};
    CHECK(read_all(grpc_raw_byte_buffer_create(parts, 2), 3, &len) == SONDE_OK && len == 3);
    CHECK(read_all(grpc_raw_byte_buffer_create(parts, 2), 2, &len) == SONDE_TOO_LARGE);
    CHECK(read_all(grpc_raw_byte_buffer_create(parts + 1, 1), 1, &len) == SONDE_OK && len == 1);
}
