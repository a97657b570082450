/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a table is written: into a buffer, or straight into a file, so that a large table never is
 * in memory as a whole. A table is its header, which is known last, and what follows. The first
 * failure sticks, as a buffer's does. Thread safety: one thread. */
#ifndef SONDE_SERVICE_SYMBOL_TABLE_TABLE_WRITER_H
#define SONDE_SERVICE_SYMBOL_TABLE_TABLE_WRITER_H

#include "api/bytes.h"
#include "api/error.h"

struct symbol_sink {
    struct sonde_buf *buf; /* NULL = the file */
    int fd;                /* open for reading and writing, empty */
    uint64_t len;          /* written so far */
    size_t held;           /* of it still in piece */
    bool failed;
    char piece[65536];
};

void symbol_sink_to_buf(struct symbol_sink *sink, struct sonde_buf *buf);
void symbol_sink_to_file(struct symbol_sink *sink, int fd);
void symbol_sink_append(struct symbol_sink *sink, const void *bytes, size_t len);
/* Pads to 8 bytes and gives the length. */
uint64_t symbol_sink_align(struct symbol_sink *sink);
/* Puts the finished header in the place of the first header_bytes, its last 8 bytes being the
 * checksum, which is filled in. SONDE_OUT_OF_MEMORY, SONDE_IO. */
SONDE_MUST_USE sonde_err symbol_sink_finish(struct symbol_sink *sink, void *header,
                                            size_t header_bytes);

#endif
