/* SPDX-License-Identifier: Apache-2.0
 *
 * ISA-L compresses, three times as fast as zlib's level 1 at the same size. zlib decompresses,
 * because it can stop at a bound in the middle of a gzip bomb. */
#include "api/gzip.h"

#include <isa-l/igzip_lib.h>
#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#define STEP        ((size_t)64 << 10)
#define GZIP_WINDOW (15 + 16) /* tells zlib to expect gzip and nothing else */

bool sonde_gzip_is(struct sonde_slice bytes) {
    return bytes.len >= 2 && (uint8_t)bytes.data[0] == 0x1f && (uint8_t)bytes.data[1] == 0x8b;
}

/* ---- Writing ---- */

struct sonde_gzip_writer {
    struct isal_zstream stream;
    struct sonde_buf *out;
    uint8_t *level_memory;
    bool has_failed;
    uint8_t piece[STEP]; /* not in out: its limit counts the bytes written, not reserved ones */
};

static const uint32_t level_sizes[] = {ISAL_DEF_LVL0_DEFAULT, ISAL_DEF_LVL1_DEFAULT,
                                       ISAL_DEF_LVL2_DEFAULT, ISAL_DEF_LVL3_DEFAULT};

struct sonde_gzip_writer *sonde_gzip_writer_create(int level, struct sonde_buf *out) {
    uint32_t known = level < 1 ? 1 : level > 3 ? 3 : (uint32_t)level;
    struct sonde_gzip_writer *writer = malloc(sizeof *writer);
    uint8_t *memory = malloc(level_sizes[known]);
    if (!writer || !memory) {
        free(writer);
        free(memory);
        return NULL;
    }
    isal_deflate_init(&writer->stream);
    writer->stream.level = known;
    writer->stream.level_buf = writer->level_memory = memory;
    writer->stream.level_buf_size = level_sizes[known];
    writer->stream.gzip_flag = IGZIP_GZIP;
    writer->out = out;
    writer->has_failed = false;
    return writer;
}

/* Runs until ISA-L has consumed its input and, at the end of the stream, emitted everything. */
static void deflate_input(struct sonde_gzip_writer *writer) {
    struct isal_zstream *stream = &writer->stream;
    do {
        stream->next_out = writer->piece;
        stream->avail_out = STEP;
        if (isal_deflate(stream) != COMP_OK)
            writer->has_failed = true;
        sonde_buf_append(writer->out, writer->piece, STEP - stream->avail_out);
    } while (!writer->has_failed && !writer->out->failed && stream->avail_out == 0);
}

void sonde_gzip_writer_add(struct sonde_gzip_writer *writer, struct sonde_slice bytes) {
    while (bytes.len > 0 && !writer->has_failed && !writer->out->failed) {
        uint32_t len = bytes.len < (1u << 30) ? (uint32_t)bytes.len : 1u << 30;
        writer->stream.next_in = (uint8_t *)(uintptr_t)bytes.data;
        writer->stream.avail_in = len;
        deflate_input(writer);
        writer->has_failed |= writer->stream.avail_in > 0 && !writer->out->failed;
        bytes = (struct sonde_slice){bytes.data + len, bytes.len - len};
    }
}

sonde_err sonde_gzip_writer_end(struct sonde_gzip_writer *writer) {
    writer->stream.end_of_stream = 1;
    writer->stream.avail_in = 0;
    deflate_input(writer);
    if (writer->out->failed)
        return writer->out->limit ? SONDE_TOO_LARGE : SONDE_OUT_OF_MEMORY;
    bool is_whole = !writer->has_failed && writer->stream.internal_state.state == ZSTATE_END;
    return is_whole ? SONDE_OK : SONDE_INTERNAL;
}

void sonde_gzip_writer_destroy(struct sonde_gzip_writer *writer) {
    if (!writer)
        return;
    free(writer->level_memory);
    free(writer);
}

/* ---- Reading ---- */

/* Reads one member and stores its compressed size in *used. */
static sonde_err read_member(struct sonde_slice bytes, size_t limit, struct sonde_buf *out,
                             size_t *used) {
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes.data,
                       .avail_in = bytes.len > UINT_MAX ? UINT_MAX : (uInt)bytes.len};
    if (inflateInit2(&stream, GZIP_WINDOW) != Z_OK)
        return SONDE_OUT_OF_MEMORY;
    sonde_err err = SONDE_OK;
    int code = Z_OK;
    while (code == Z_OK && !err) {
        char *piece = sonde_buf_extend(out, STEP);
        if (!piece) {
            err = SONDE_OUT_OF_MEMORY;
            break;
        }
        stream.next_out = (Bytef *)piece;
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

sonde_err sonde_gzip_read(struct sonde_slice bytes, size_t limit_bytes, struct sonde_buf *out,
                          struct sonde_diag *diag) {
    size_t at = 0;
    if (bytes.len > UINT_MAX)
        return sonde_fail(diag, SONDE_TOO_LARGE, "gzip data of more than 4 GiB");
    while (at < bytes.len) {
        size_t used = 0;
        struct sonde_slice rest = {bytes.data + at, bytes.len - at};
        sonde_err err = read_member(rest, limit_bytes, out, &used);
        at += used;
        if (err == SONDE_TOO_LARGE)
            return sonde_fail(diag, err, "the gzip data inflates to more than %zu bytes",
                              limit_bytes);
        if (err == SONDE_CORRUPT)
            return sonde_fail(diag, err, "broken gzip data at byte %zu", at);
        if (err)
            return sonde_fail(diag, err, "out of memory while inflating gzip data");
    }
    return SONDE_OK;
}
