/* SPDX-License-Identifier: Apache-2.0
 *
 * A dump's text in memory. A guest's dump, a sealed memfd that nobody can shrink or change, is
 * mapped (70 MB for 100,000 stacks); a file that sonded saved is copied. Thread safety: one
 * thread. */
#ifndef SONDE_SERVICE_ENGINE_MEMORY_REPORT_DUMP_TEXT_H
#define SONDE_SERVICE_ENGINE_MEMORY_REPORT_DUMP_TEXT_H

#include "api/bytes.h"
#include "api/error.h"

#define HEAP_TEXT_MAX (1ull << 30)

struct heap_text {
    struct sonde_slice bytes;
    void *mapped; /* NULL = the text is in `copy` */
    size_t mapped_bytes;
    struct sonde_buf copy;
};

/* Reads all of fd, which is borrowed. SONDE_TOO_LARGE past HEAP_TEXT_MAX, SONDE_CORRUPT if it is
 * not a regular file, SONDE_IO. */
SONDE_MUST_USE sonde_err heap_text_open(int fd, struct heap_text *text, struct sonde_diag *diag);
/* Moves the text to a buf, copying it if it is mapped. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err heap_text_take(struct heap_text *text, struct sonde_buf *out);
void heap_text_finish(struct heap_text *text);

#endif
