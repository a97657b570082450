/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/table/table_writer.h"

#include "service/symbol/table/checksum.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void symbol_sink_to_buf(struct symbol_sink *sink, struct sonde_buf *buf) {
    sink->buf = buf;
    sink->fd = -1;
    sink->len = buf->len;
    sink->held = 0;
    sink->failed = false;
}

void symbol_sink_to_file(struct symbol_sink *sink, int fd) {
    sink->buf = NULL;
    sink->fd = fd;
    sink->len = 0;
    sink->held = 0;
    sink->failed = false;
}

static void write_all(struct symbol_sink *sink, const char *bytes, size_t len) {
    while (len > 0 && !sink->failed) {
        ssize_t done = write(sink->fd, bytes, len);
        if (done < 0 && errno == EINTR)
            continue;
        sink->failed |= done <= 0;
        bytes += done > 0 ? done : 0;
        len -= done > 0 ? (size_t)done : 0;
    }
}

static void flush(struct symbol_sink *sink) {
    write_all(sink, sink->piece, sink->held);
    sink->held = 0;
}

void symbol_sink_append(struct symbol_sink *sink, const void *bytes, size_t len) {
    sink->len += len;
    if (sink->buf) {
        sonde_buf_append(sink->buf, bytes, len);
        sink->failed |= sink->buf->failed;
        return;
    }
    if (len > sizeof sink->piece - sink->held)
        flush(sink);
    if (len > sizeof sink->piece) {
        write_all(sink, bytes, len);
        return;
    }
    memcpy(sink->piece + sink->held, bytes, len);
    sink->held += len;
}

uint64_t symbol_sink_align(struct symbol_sink *sink) {
    static const char zeros[8];
    symbol_sink_append(sink, zeros, (size_t)(-sink->len & 7));
    return sink->len;
}

/* Hashes what stands behind the header, as symbol_table_is_whole will. */
static uint64_t hash_file(struct symbol_sink *sink, uint64_t hash, uint64_t at) {
    while (at < sink->len && !sink->failed) {
        uint64_t left = sink->len - at;
        size_t len = left < SYMBOL_CHECKSUM_PIECE ? left : SYMBOL_CHECKSUM_PIECE;
        sink->failed |= pread(sink->fd, sink->piece, len, (off_t)at) != (ssize_t)len;
        hash = symbol_checksum(hash, sink->piece, len);
        at += len;
    }
    return hash;
}

sonde_err symbol_sink_finish(struct symbol_sink *sink, void *header, size_t header_bytes) {
    char *checksum = (char *)header + header_bytes - 8;
    if (!sink->buf)
        flush(sink);
    if (sink->failed)
        return sink->buf ? SONDE_OUT_OF_MEMORY : SONDE_IO;
    memset(checksum, 0, 8);
    uint64_t hash = symbol_checksum(0, header, header_bytes);
    if (sink->buf)
        hash = symbol_checksum(hash, sink->buf->data + header_bytes, sink->len - header_bytes);
    else
        hash = hash_file(sink, hash, header_bytes);
    memcpy(checksum, &hash, 8);
    if (sink->buf) {
        memcpy(sink->buf->data, header, header_bytes);
        return SONDE_OK;
    }
    sink->failed |= lseek(sink->fd, 0, SEEK_SET) != 0;
    write_all(sink, header, header_bytes);
    return sink->failed ? SONDE_IO : SONDE_OK;
}
