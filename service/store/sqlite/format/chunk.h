/* SPDX-License-Identifier: Apache-2.0
 *
 * A chunk: some windows as columns. On disk, before compression:
 *
 *     format, counts | names of threads | shapes (length, period, weight) | window columns |
 *     CPU clocks, if they are known | stacks (sorted per window, as differences) | threads |
 *     values (divided by the period)
 *
 * Bytes from disk are checked while they are decoded. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_STORE_SQLITE_FORMAT_CHUNK_H
#define SONDE_SERVICE_STORE_SQLITE_FORMAT_CHUNK_H

#include "service/store/sqlite/format/text_list.h"
#include "service/store/store.h"

#define CHUNK_FORMAT   1          /* the first number */
#define CHUNK_CLOCKED  2          /* instead, if windows have CPU clocks */
#define CHUNK_MAX_ROWS (1u << 20) /* of a window */

struct chunk_window {
    uint32_t stream, labels; /* numbers of the stream and of the label set */
    uint32_t length_s;
    int64_t begin_unix_s;
    uint64_t period_ns;
    double weight;
    uint64_t samples, dropped, truncated;
    uint64_t cpu_from_ns, cpu_until_ns; /* as in store_window */
    int64_t sum;                        /* of its values, without weight */
    int64_t divisor; /* what the values are divided by on disk: the period, or 1 */
    uint32_t first_row, row_count;
};

struct chunk_row {
    uint32_t stack, thread; /* number of the stack; index into threads */
    int64_t value;
};

/* Zeroed memory is an empty chunk. */
struct chunk {
    struct chunk_window *windows;
    size_t window_count, window_capacity;
    struct chunk_row *rows;
    size_t row_count, row_capacity;
    struct text_list threads;
    bool failed; /* out of memory */
};

/* Empties the chunk and keeps its memory. */
void chunk_clear(struct chunk *chunk);
void chunk_finish(struct chunk *chunk);
/* A copy of the window; its rows follow with chunk_add_row. */
void chunk_add_window(struct chunk *chunk, const struct chunk_window *window);
/* To the last window. */
void chunk_add_row(struct chunk *chunk, uint32_t stack, uint32_t thread, int64_t value);
/* All windows of `from`. */
void chunk_append(struct chunk *chunk, const struct chunk *from);
/* An upper bound of what encoding it takes. */
size_t chunk_bytes(const struct chunk *chunk);

/* Appends the columns. Sorts the windows, and the rows of each. */
void chunk_encode(struct chunk *chunk, struct sonde_buf *buf);
/* Replaces the contents. Without rows, windows have no rows but their counts. Returns false if the
 * bytes are damaged, or memory ran out. */
bool chunk_decode(struct chunk *chunk, struct sonde_slice bytes, bool with_rows);

/* value * weight, rounded; a sum that does not overflow. */
int64_t chunk_weigh(int64_t value, double weight);
int64_t chunk_add(int64_t a, int64_t b);

#endif
