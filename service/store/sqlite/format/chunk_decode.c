/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes come from disk, so every number is checked before it is used. A count of rows larger
 * than a third of the remaining bytes is refused before memory is allocated, because each row takes
 * at least 3 bytes. */
#include "api/base/array.h"
#include "service/store/sqlite/format/chunk.h"
#include "service/store/sqlite/format/pack.h"
#include "service/store/sqlite/format/varint.h"

#include <string.h>

#define MAX_ROWS  (PACK_MAX_BYTES / 3)
#define LAST_TIME 4102444800 /* the year 2100 */

static void read_threads(struct chunk *chunk, struct varint_reader *reader) {
    size_t count = varint_get_count(reader, 1);
    char name[STORE_MAX_TEXT + 1];
    for (size_t i = 0; i < count && !reader->failed; i++) {
        struct sonde_slice bytes = varint_get_bytes(reader);
        if (bytes.len > STORE_MAX_TEXT) {
            reader->failed = true;
            return;
        }
        memcpy(name, bytes.data, bytes.len);
        name[bytes.len] = 0;
        /* Names are different, so each is a new one. */
        if (text_list_number(&chunk->threads, name) != i || chunk->threads.failed)
            reader->failed = true;
    }
}

static void read_shape(struct varint_reader *reader, struct chunk_window *window) {
    window->length_s = (uint32_t)varint_get_max(reader, STORE_MAX_LENGTH);
    window->period_ns = varint_get(reader);
    if (reader->end - reader->at < (ptrdiff_t)sizeof window->weight) {
        reader->failed = true;
        return;
    }
    memcpy(&window->weight, reader->at, sizeof window->weight);
    reader->at += sizeof window->weight;
    if (!(window->weight > 0 && window->weight <= 1e9))
        reader->failed = true;
}

static void read_shapes(struct chunk *chunk, struct varint_reader *reader) {
    struct chunk_window shape = {0};
    for (size_t i = 0; i < chunk->window_count; i++) {
        if (varint_get_max(reader, 1))
            read_shape(reader, &shape);
        if (!(shape.weight > 0)) /* the first window has a shape */
            reader->failed = true;
        chunk->windows[i].length_s = shape.length_s;
        chunk->windows[i].period_ns = shape.period_ns;
        chunk->windows[i].weight = shape.weight;
    }
}

/* The columns before the counts; returns the number of rows. */
static uint64_t read_columns(struct chunk *chunk, struct varint_reader *reader) {
    struct chunk_window *windows = chunk->windows;
    uint32_t stream = 0, labels = 0;
    uint64_t rows = 0;
    int64_t begin = 0;
    for (size_t i = 0; i < chunk->window_count; i++)
        windows[i].stream = stream += (uint32_t)varint_get_max(reader, UINT32_MAX);
    for (size_t i = 0; i < chunk->window_count; i++)
        windows[i].labels = labels += (uint32_t)varint_get_max(reader, UINT32_MAX);
    for (size_t i = 0; i < chunk->window_count; i++) {
        begin = chunk_add(begin, varint_get_signed(reader));
        windows[i].begin_unix_s = begin;
        if (begin < 0 || begin > LAST_TIME)
            reader->failed = true;
    }
    read_shapes(chunk, reader);
    for (size_t i = 0; i < chunk->window_count; i++) {
        windows[i].first_row = (uint32_t)rows;
        windows[i].row_count = (uint32_t)varint_get_max(reader, MAX_ROWS - rows);
        rows += windows[i].row_count;
    }
    return rows;
}

static void read_counts(struct chunk *chunk, struct varint_reader *reader) {
    for (size_t i = 0; i < chunk->window_count; i++) {
        struct chunk_window *window = &chunk->windows[i];
        window->divisor = varint_get_max(reader, 1) ? (int64_t)window->period_ns : 1;
        int64_t units = varint_get_signed(reader);
        window->samples = (uint64_t)(varint_get_signed(reader) + (uint64_t)units);
        window->dropped = varint_get(reader);
        window->truncated = varint_get(reader);
        if (window->divisor < 1 || __builtin_mul_overflow(units, window->divisor, &window->sum))
            reader->failed = true;
    }
}

static void read_clocks(struct chunk *chunk, struct varint_reader *reader) {
    uint64_t last = 0;
    for (size_t i = 0; i < chunk->window_count; i++) {
        struct chunk_window *window = &chunk->windows[i];
        window->cpu_from_ns = last + (uint64_t)varint_get_signed(reader);
        last = window->cpu_until_ns = window->cpu_from_ns + varint_get(reader);
        if (last < window->cpu_from_ns || last > INT64_MAX)
            reader->failed = true;
    }
}

static void read_stacks(struct chunk *chunk, struct varint_reader *reader) {
    for (size_t i = 0; i < chunk->window_count; i++) {
        struct chunk_row *row = chunk->rows + chunk->windows[i].first_row;
        struct chunk_row *end = row + chunk->windows[i].row_count;
        for (uint32_t stack = 0; row < end; row++)
            row->stack = stack += (uint32_t)varint_get(reader);
    }
}

static void read_values(struct chunk *chunk, struct varint_reader *reader) {
    for (size_t i = 0; i < chunk->window_count; i++) {
        int64_t divisor = chunk->windows[i].divisor;
        struct chunk_row *row = chunk->rows + chunk->windows[i].first_row;
        struct chunk_row *end = row + chunk->windows[i].row_count;
        for (; row < end; row++)
            if (__builtin_mul_overflow(varint_get_signed(reader), divisor, &row->value))
                reader->failed = true;
    }
}

static void read_rows(struct chunk *chunk, struct varint_reader *reader, uint64_t count) {
    if (reader->failed || count > (uint64_t)(reader->end - reader->at) / 3 ||
        !array_room(&chunk->rows, &chunk->row_capacity, count, 1)) {
        reader->failed = true;
        return;
    }
    chunk->row_count = count;
    read_stacks(chunk, reader);
    for (uint64_t i = 0; i < count; i++) {
        chunk->rows[i].thread = (uint32_t)varint_get(reader);
        if (chunk->rows[i].thread >= chunk->threads.count)
            reader->failed = true;
    }
    read_values(chunk, reader);
    if (reader->at != reader->end)
        reader->failed = true;
}

bool chunk_decode(struct chunk *chunk, struct sonde_slice bytes, bool with_rows) {
    chunk_clear(chunk);
    struct varint_reader reader = varint_reader(bytes.data, bytes.len);
    uint64_t format = varint_get(&reader);
    if (format != CHUNK_FORMAT && format != CHUNK_CLOCKED)
        return false;
    read_threads(chunk, &reader);
    size_t count = varint_get_count(&reader, 8); /* a window takes 9 bytes at least */
    uint64_t rows = varint_get(&reader);
    if (reader.failed || !array_room(&chunk->windows, &chunk->window_capacity, count, 1))
        return false;
    memset(chunk->windows, 0, count * sizeof *chunk->windows);
    chunk->window_count = count;
    if (read_columns(chunk, &reader) != rows)
        return false;
    read_counts(chunk, &reader);
    if (format == CHUNK_CLOCKED)
        read_clocks(chunk, &reader);
    if (with_rows)
        read_rows(chunk, &reader, rows);
    return !reader.failed;
}
