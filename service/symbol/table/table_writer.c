/* SPDX-License-Identifier: Apache-2.0 */
#include "service/symbol/table/table_writer.h"

#include "service/symbol/table/checksum.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void table_writer_to_buf(struct table_writer *writer, struct sonde_buf *buf) {
    writer->buf = buf;
    writer->fd = -1;
    writer->len = buf->len;
    writer->held = 0;
    writer->failed = false;
}

void table_writer_to_file(struct table_writer *writer, int fd) {
    writer->buf = NULL;
    writer->fd = fd;
    writer->len = 0;
    writer->held = 0;
    writer->failed = false;
}

static void write_all(struct table_writer *writer, const char *bytes, size_t len) {
    while (len > 0 && !writer->failed) {
        ssize_t done = write(writer->fd, bytes, len);
        if (done < 0 && errno == EINTR)
            continue;
        writer->failed |= done <= 0;
        bytes += done > 0 ? done : 0;
        len -= done > 0 ? (size_t)done : 0;
    }
}

static void flush(struct table_writer *writer) {
    write_all(writer, writer->piece, writer->held);
    writer->held = 0;
}

void table_writer_append(struct table_writer *writer, const void *bytes, size_t len) {
    writer->len += len;
    if (writer->buf) {
        sonde_buf_append(writer->buf, bytes, len);
        writer->failed |= writer->buf->failed;
        return;
    }
    if (len > sizeof writer->piece - writer->held)
        flush(writer);
    if (len > sizeof writer->piece) {
        write_all(writer, bytes, len);
        return;
    }
    memcpy(writer->piece + writer->held, bytes, len);
    writer->held += len;
}

uint64_t table_writer_align(struct table_writer *writer) {
    static const char zeros[8];
    table_writer_append(writer, zeros, (size_t)(-writer->len & 7));
    return writer->len;
}

/* Hashes the file behind its header, in the pieces that table_file_is_whole reads. */
static uint64_t hash_file(struct table_writer *writer, uint64_t hash, uint64_t at) {
    while (at < writer->len && !writer->failed) {
        uint64_t left = writer->len - at;
        size_t len = left < SYMBOL_CHECKSUM_PIECE ? left : SYMBOL_CHECKSUM_PIECE;
        writer->failed |= pread(writer->fd, writer->piece, len, (off_t)at) != (ssize_t)len;
        hash = symbol_checksum(hash, writer->piece, len);
        at += len;
    }
    return hash;
}

sonde_err table_writer_finish(struct table_writer *writer, void *header, size_t header_bytes) {
    char *checksum = (char *)header + header_bytes - 8;
    if (!writer->buf)
        flush(writer);
    if (writer->failed)
        return writer->buf ? SONDE_OUT_OF_MEMORY : SONDE_IO;
    memset(checksum, 0, 8);
    uint64_t hash = symbol_checksum(0, header, header_bytes);
    if (writer->buf)
        hash = symbol_checksum(hash, writer->buf->data + header_bytes, writer->len - header_bytes);
    else
        hash = hash_file(writer, hash, header_bytes);
    memcpy(checksum, &hash, 8);
    if (writer->buf) {
        memcpy(writer->buf->data, header, header_bytes);
        return SONDE_OK;
    }
    writer->failed |= lseek(writer->fd, 0, SEEK_SET) != 0;
    write_all(writer, header, header_bytes);
    return writer->failed ? SONDE_IO : SONDE_OK;
}
