/* SPDX-License-Identifier: Apache-2.0
 *
 * Writes a table into a buffer, or directly into a file, so that a large table is never in memory
 * as a whole. The header is known last: append a placeholder first, and pass the real one to
 * finish. After the first failure the other calls do nothing and finish reports it. Thread safety:
 * one thread. */
#ifndef SONDE_SERVICE_SYMBOL_TABLE_TABLE_WRITER_H
#define SONDE_SERVICE_SYMBOL_TABLE_TABLE_WRITER_H

#include "api/bytes.h"
#include "api/error.h"

struct table_writer {
    struct sonde_buf *buf; /* NULL = the file */
    int fd;                /* an empty file, open for reading and writing */
    uint64_t len;          /* bytes appended so far */
    size_t held;           /* bytes of them still in piece */
    bool failed;
    char piece[65536];
};

void table_writer_to_buf(struct table_writer *writer, struct sonde_buf *buf);
void table_writer_to_file(struct table_writer *writer, int fd);
void table_writer_append(struct table_writer *writer, const void *bytes, size_t len);
/* Pads to a multiple of 8 bytes and returns the length. */
uint64_t table_writer_align(struct table_writer *writer);
/* Overwrites the first header_bytes with the header, whose last 8 bytes become the checksum.
 * SONDE_OUT_OF_MEMORY, SONDE_IO. */
SONDE_MUST_USE sonde_err table_writer_finish(struct table_writer *writer, void *header,
                                             size_t header_bytes);

#endif
