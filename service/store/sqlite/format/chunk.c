/* SPDX-License-Identifier: Apache-2.0
 *
 * Building and encoding chunks; chunk_decode.c reads them. */
#include "service/store/sqlite/format/chunk.h"

#include "api/base/array.h"
#include "service/store/sqlite/format/varint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void chunk_clear(struct chunk *chunk) {
    chunk->window_count = chunk->row_count = 0;
    text_list_clear(&chunk->threads);
}

void chunk_finish(struct chunk *chunk) {
    free(chunk->windows);
    free(chunk->rows);
    text_list_finish(&chunk->threads);
    *chunk = (struct chunk){0};
}

/* Room for one more; the arrays are then never NULL. */
static bool reserve_one(struct chunk *chunk) {
    chunk->failed = chunk->failed ||
                    !array_room(&chunk->windows, &chunk->window_capacity, chunk->window_count, 1) ||
                    !array_room(&chunk->rows, &chunk->row_capacity, chunk->row_count, 1);
    return !chunk->failed;
}

void chunk_add_window(struct chunk *chunk, const struct chunk_window *window) {
    if (!reserve_one(chunk))
        return;
    struct chunk_window *added = &chunk->windows[chunk->window_count++];
    *added = *window;
    added->first_row = (uint32_t)chunk->row_count;
    added->row_count = 0;
    added->sum = 0;
}

void chunk_add_row(struct chunk *chunk, uint32_t stack, uint32_t thread, int64_t value) {
    if (!reserve_one(chunk))
        return;
    chunk->rows[chunk->row_count++] = (struct chunk_row){stack, thread, value};
    struct chunk_window *window = &chunk->windows[chunk->window_count - 1];
    window->row_count++;
    window->sum = chunk_add(window->sum, value);
}

void chunk_append(struct chunk *chunk, const struct chunk *from) {
    uint32_t *threads = malloc((from->threads.count + 1) * sizeof *threads);
    for (size_t i = 0; threads && i < from->threads.count; i++)
        threads[i] = text_list_number(&chunk->threads, from->threads.texts[i]);
    chunk->failed = chunk->failed || !threads || chunk->threads.failed;
    for (size_t i = 0; i < from->window_count && !chunk->failed; i++) {
        const struct chunk_window *window = &from->windows[i];
        chunk_add_window(chunk, window);
        const struct chunk_row *rows = from->rows + window->first_row;
        for (uint32_t row = 0; row < window->row_count && !chunk->failed; row++)
            chunk_add_row(chunk, rows[row].stack, threads[rows[row].thread], rows[row].value);
    }
    free(threads);
}

size_t chunk_bytes(const struct chunk *chunk) {
    return chunk->row_count * 20 + chunk->window_count * 120 +
           chunk->threads.count * (STORE_MAX_TEXT + 10) + 100;
}

int64_t chunk_weigh(int64_t value, double weight) {
    if (weight == 1)
        return value;
    double product = (double)value * weight;
    if (product >= 0x1p63)
        return INT64_MAX;
    return product <= -0x1p63 ? INT64_MIN : llrint(product);
}

int64_t chunk_add(int64_t a, int64_t b) {
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return a > 0 ? INT64_MAX : INT64_MIN;
}

static int compare_rows(const void *left, const void *right) {
    const struct chunk_row *a = left, *b = right;
    if (a->stack != b->stack)
        return a->stack < b->stack ? -1 : 1;
    return (a->thread > b->thread) - (a->thread < b->thread);
}

static int compare_windows(const void *left, const void *right) {
    const struct chunk_window *a = left, *b = right;
    if (a->stream != b->stream)
        return a->stream < b->stream ? -1 : 1;
    if (a->labels != b->labels)
        return a->labels < b->labels ? -1 : 1;
    if (a->begin_unix_s != b->begin_unix_s)
        return a->begin_unix_s < b->begin_unix_s ? -1 : 1;
    return (a->first_row > b->first_row) - (a->first_row < b->first_row);
}

/* Most windows have few rows. */
static void sort_rows(struct chunk_row *rows, uint32_t count) {
    if (count > 24) {
        qsort(rows, count, sizeof *rows, compare_rows);
        return;
    }
    for (uint32_t i = 1; i < count; i++) {
        struct chunk_row row = rows[i];
        uint32_t at = i;
        for (; at > 0 && compare_rows(&rows[at - 1], &row) > 0; at--)
            rows[at] = rows[at - 1];
        rows[at] = row;
    }
}

/* The period, if all values are multiples of it: what is stored are then counts of samples. */
static int64_t divisor_of(const struct chunk *chunk, const struct chunk_window *window) {
    const struct chunk_row *rows = chunk->rows + window->first_row;
    int64_t period = (int64_t)window->period_ns;
    if (period <= 1)
        return 1;
    for (uint32_t i = 0; i < window->row_count; i++)
        if (rows[i].value != period && rows[i].value % period != 0)
            return 1;
    return window->sum % period == 0 ? period : 1;
}

/* Shapes are few: those of the last window are repeated as long as they are equal. */
static bool same_shape(const struct chunk_window *a, const struct chunk_window *b) {
    return a->length_s == b->length_s && a->period_ns == b->period_ns && a->weight == b->weight;
}

static uint8_t *write_shape(uint8_t *at, const struct chunk_window *window) {
    at = varint_write(at, window->length_s);
    at = varint_write(at, window->period_ns);
    memcpy(at, &window->weight, sizeof window->weight);
    return at + sizeof window->weight;
}

static uint8_t *write_windows(uint8_t *at, const struct chunk *chunk) {
    const struct chunk_window *last = &(struct chunk_window){0};
    for (size_t i = 0; i < chunk->window_count; last = &chunk->windows[i++])
        at = varint_write(at, chunk->windows[i].stream - last->stream);
    last = &(struct chunk_window){0};
    for (size_t i = 0; i < chunk->window_count; last = &chunk->windows[i++])
        at = varint_write(at, chunk->windows[i].labels - last->labels);
    last = &(struct chunk_window){0};
    for (size_t i = 0; i < chunk->window_count; last = &chunk->windows[i++])
        at = varint_write(at, varint_zigzag(chunk->windows[i].begin_unix_s - last->begin_unix_s));
    last = &(struct chunk_window){0};
    for (size_t i = 0; i < chunk->window_count; last = &chunk->windows[i++]) {
        bool is_same = same_shape(last, &chunk->windows[i]);
        *at++ = !is_same;
        at = is_same ? at : write_shape(at, &chunk->windows[i]);
    }
    for (size_t i = 0; i < chunk->window_count; i++)
        at = varint_write(at, chunk->windows[i].row_count);
    for (size_t i = 0; i < chunk->window_count; i++) {
        const struct chunk_window *window = &chunk->windows[i];
        int64_t units = window->sum / window->divisor;
        *at++ = window->divisor > 1;
        at = varint_write(at, varint_zigzag(units));
        at = varint_write(at, varint_zigzag((int64_t)(window->samples - (uint64_t)units)));
        at = varint_write(at, window->dropped);
        at = varint_write(at, window->truncated);
    }
    return at;
}

static bool has_clocks(const struct chunk *chunk) {
    for (size_t i = 0; i < chunk->window_count; i++)
        if (chunk->windows[i].cpu_until_ns)
            return true;
    return false;
}

/* Most windows begin where the one before them ended. */
static uint8_t *write_clocks(uint8_t *at, const struct chunk *chunk) {
    uint64_t last = 0;
    for (size_t i = 0; i < chunk->window_count; i++) {
        const struct chunk_window *window = &chunk->windows[i];
        at = varint_write(at, varint_zigzag((int64_t)(window->cpu_from_ns - last)));
        at = varint_write(at, window->cpu_until_ns - window->cpu_from_ns);
        last = window->cpu_until_ns;
    }
    return at;
}

static uint8_t *write_rows(uint8_t *at, const struct chunk *chunk) {
    const struct chunk_window *end = chunk->windows + chunk->window_count;
    for (const struct chunk_window *window = chunk->windows; window < end; window++) {
        const struct chunk_row *rows = chunk->rows + window->first_row;
        for (uint32_t i = 0, last = 0; i < window->row_count; last = rows[i++].stack)
            at = varint_write(at, rows[i].stack - last);
    }
    for (const struct chunk_window *window = chunk->windows; window < end; window++)
        for (uint32_t i = 0; i < window->row_count; i++)
            at = varint_write(at, chunk->rows[window->first_row + i].thread);
    for (const struct chunk_window *window = chunk->windows; window < end; window++) {
        const struct chunk_row *rows = chunk->rows + window->first_row;
        for (uint32_t i = 0; i < window->row_count; i++)
            at = varint_write(at, varint_zigzag(rows[i].value == window->divisor
                                                    ? 1
                                                    : rows[i].value / window->divisor));
    }
    return at;
}

void chunk_encode(struct chunk *chunk, struct sonde_buf *buf) {
    for (size_t i = 0; i < chunk->window_count; i++) {
        struct chunk_window *window = &chunk->windows[i];
        sort_rows(chunk->rows + window->first_row, window->row_count);
        window->divisor = divisor_of(chunk, window);
    }
    if (chunk->window_count > 1)
        qsort(chunk->windows, chunk->window_count, sizeof *chunk->windows, compare_windows);
    bool is_clocked = has_clocks(chunk);
    varint_put(buf, is_clocked ? CHUNK_CLOCKED : CHUNK_FORMAT);
    varint_put(buf, chunk->threads.count);
    for (size_t i = 0; i < chunk->threads.count; i++)
        varint_put_bytes(buf, chunk->threads.texts[i], strlen(chunk->threads.texts[i]));
    varint_put(buf, chunk->window_count);
    varint_put(buf, chunk->row_count);
    size_t at = buf->len;
    uint8_t *data = (uint8_t *)sonde_buf_extend(buf, chunk_bytes(chunk));
    if (!data)
        return;
    uint8_t *end = write_windows(data, chunk);
    end = is_clocked ? write_clocks(end, chunk) : end;
    end = write_rows(end, chunk);
    buf->len = at + (size_t)(end - data);
}
