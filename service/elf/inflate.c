/* SPDX-License-Identifier: Apache-2.0 */
#include "service/elf/inflate.h"

#include <limits.h>
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#define XZ_MEMORY (64u << 20)
#define XZ_STEP   (256u << 10)

/* zlib counts in 32 bits, so input and output pass in pieces of at most 1 GiB. */
#define ZLIB_PIECE ((size_t)1 << 30)

static uInt zlib_piece(size_t left) {
    return (uInt)(left < ZLIB_PIECE ? left : ZLIB_PIECE);
}

sonde_err inflate_zlib(const void *from, size_t from_len, void *to, size_t to_len) {
    z_stream stream = {0};
    if (inflateInit(&stream) != Z_OK)
        return SONDE_OUT_OF_MEMORY;
    stream.next_in = (Bytef *)from;
    stream.next_out = to;
    int state = Z_OK;
    while (state == Z_OK) {
        size_t in_left = from_len - (size_t)((const char *)stream.next_in - (const char *)from);
        size_t out_left = to_len - (size_t)((char *)stream.next_out - (char *)to);
        stream.avail_in = zlib_piece(in_left);
        stream.avail_out = zlib_piece(out_left);
        if (in_left == 0 && out_left == 0)
            break;
        state = inflate(&stream, Z_NO_FLUSH); /* Z_BUF_ERROR without progress: the loop ends */
    }
    bool whole = state == Z_STREAM_END && (char *)stream.next_out == (char *)to + to_len;
    inflateEnd(&stream);
    return whole ? SONDE_OK : SONDE_CORRUPT;
}

sonde_err inflate_zstd(const void *from, size_t from_len, void *to, size_t to_len) {
    size_t got = ZSTD_decompress(to, to_len, from, from_len);
    return !ZSTD_isError(got) && got == to_len ? SONDE_OK : SONDE_CORRUPT;
}

/* Appends the output of one call of the decoder. */
static lzma_ret xz_round(lzma_stream *stream, size_t limit, struct sonde_buf *to) {
    if (to->len >= limit)
        return LZMA_MEMLIMIT_ERROR;
    size_t room = limit - to->len < XZ_STEP ? limit - to->len : XZ_STEP;
    char *out = sonde_buf_extend(to, room);
    if (!out)
        return LZMA_MEM_ERROR;
    stream->next_out = (uint8_t *)out;
    stream->avail_out = room;
    lzma_ret state = lzma_code(stream, LZMA_FINISH);
    to->len -= stream->avail_out;
    to->data[to->len] = 0;
    return state;
}

sonde_err inflate_xz(const void *from, size_t from_len, size_t limit, struct sonde_buf *to) {
    lzma_stream stream = LZMA_STREAM_INIT;
    if (lzma_stream_decoder(&stream, XZ_MEMORY, 0) != LZMA_OK)
        return SONDE_OUT_OF_MEMORY;
    stream.next_in = from;
    stream.avail_in = from_len;
    lzma_ret state = LZMA_OK;
    while (state == LZMA_OK)
        state = xz_round(&stream, limit, to);
    lzma_end(&stream);
    if (state == LZMA_STREAM_END)
        return SONDE_OK;
    if (state == LZMA_MEM_ERROR)
        return SONDE_OUT_OF_MEMORY;
    return state == LZMA_MEMLIMIT_ERROR ? SONDE_TOO_LARGE : SONDE_CORRUPT;
}
