/* SPDX-License-Identifier: Apache-2.0
 *
 * libdeflate packs (twice as fast as zlib, and the whole input is at hand); zlib unpacks, because
 * it can stop at a bound in the middle of a bomb. */
#include "api/profile/gzip.h"

#include <libdeflate.h>
#include <limits.h>
#include <zlib.h>

#define STEP        ((size_t)64 << 10)
#define GZIP_WINDOW (15 + 16) /* zlib's way of saying: gzip, and nothing else */

bool gzip_is(struct sonde_slice bytes) {
    return bytes.len >= 2 && (uint8_t)bytes.data[0] == 0x1f && (uint8_t)bytes.data[1] == 0x8b;
}

sonde_err gzip_pack(struct sonde_slice bytes, int level, struct sonde_buf *out) {
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(level);
    if (!compressor)
        return SONDE_OUT_OF_MEMORY;
    size_t before = out->len, bound = libdeflate_gzip_compress_bound(compressor, bytes.len);
    /* The bound is what could be needed; a limit of out is about what is needed. */
    struct sonde_buf packed = {0};
    char *room = sonde_buf_extend(&packed, bound);
    size_t len = 0;
    if (room)
        len = libdeflate_gzip_compress(compressor, bytes.data, bytes.len, room, bound);
    libdeflate_free_compressor(compressor);
    if (len)
        sonde_buf_append(out, room, len);
    sonde_buf_finish(&packed);
    if (len == 0)
        return SONDE_OUT_OF_MEMORY;
    return out->len == before + len && !out->failed ? SONDE_OK : SONDE_TOO_LARGE;
}

/* One member; *used is what it took of bytes. */
static sonde_err unpack_member(struct sonde_slice bytes, size_t limit, struct sonde_buf *out,
                               size_t *used) {
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes.data,
                       .avail_in = bytes.len > UINT_MAX ? UINT_MAX : (uInt)bytes.len};
    if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = SONDE_OK;
    int code = Z_OK;
    while (code == Z_OK && !err) {
        char *room = sonde_buf_extend(out, STEP);
        if (!room) {
            err = SONDE_OUT_OF_MEMORY;
            break;
        }
        stream.next_out = (Bytef *)room;
        stream.avail_out = (uInt)STEP;
        code = inflate(&stream, Z_NO_FLUSH);
        out->len -= stream.avail_out;
        if (out->len > limit)
            err = SONDE_TOO_LARGE;
    }
    *used = bytes.len - stream.avail_in;
    inflateEnd(&stream);
    return err || code == Z_STREAM_END ? err : SONDE_CORRUPT;
}

sonde_err gzip_unpack(struct sonde_slice bytes, size_t limit_bytes, struct sonde_buf *out,
                      struct sonde_diag *diag) {
    size_t at = 0;
    if (bytes.len > UINT_MAX)
        return sonde_fail(diag, SONDE_TOO_LARGE, "more than 4 GiB of gzip");
    while (at < bytes.len) {
        size_t used = 0;
        struct sonde_slice rest = {bytes.data + at, bytes.len - at};
        sonde_err err = unpack_member(rest, limit_bytes, out, &used);
        at += used;
        if (err == SONDE_TOO_LARGE)
            return sonde_fail(diag, err, "the profile inflates to more than %zu bytes",
                              limit_bytes);
        if (err == SONDE_CORRUPT)
            return sonde_fail(diag, err, "broken gzip data at byte %zu", at);
        if (err)
            return sonde_fail(diag, err, "out of memory while inflating");
    }
    return SONDE_OK;
}
