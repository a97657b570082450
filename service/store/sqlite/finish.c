/* SPDX-License-Identifier: Apache-2.0
 *
 * After an hour of a stream, its chunks (one per put and minute) become a few large ones and a
 * rollup with the sums by thread and stack. Late windows make the hour dirty again. Totals, which
 * come every 10 seconds, become one window per minute. */
#include "service/store/sqlite/finish.h"

#include "api/base/array.h"
#include "api/profile/event.h"
#include "service/store/sqlite/db/keys.h"
#include "service/store/sqlite/format/sums.h"
#include "service/store/sqlite/format/tally.h"
#include "service/store/sqlite/format/text_list.h"

#include <stdlib.h>

#define FINISH_LEVEL 6 /* zstd's */
#define LARGE_ROWS   8192
#define LARGE_BYTES  (16u << 20)

struct finish {
    struct db *db;
    uint32_t stream;
    bool is_host, is_state;
    int64_t first_key, last_key, last_minute; /* of the chunks in `large` */
    struct chunk small, large, coarse;
    struct tally tally;
    struct sums sums, minute;
    struct text_list threads; /* of sums */
    uint32_t *map;            /* from a chunk's threads */
    size_t map_capacity;
    uint64_t rows;
};

/* Adds a chunk's windows to the hour's sums. */
static void sum_up(struct finish *finish, const struct chunk *chunk) {
    const struct text_list *names = &chunk->threads;
    if (!array_room(&finish->map, &finish->map_capacity, 0, names->count)) {
        db_out_of_memory(finish->db);
        return;
    }
    for (size_t i = 0; i < names->count; i++)
        finish->map[i] = text_list_number(&finish->threads, names->texts[i]);
    for (size_t i = 0; i < chunk->window_count; i++) {
        const struct chunk_window *window = &chunk->windows[i];
        const struct chunk_row *row = chunk->rows + window->first_row;
        tally_add(&finish->tally, 0, window);
        finish->rows += window->row_count;
        for (uint32_t n = 0; n < window->row_count && !finish->is_state; n++, row++)
            sums_add(&finish->sums, finish->map[row->thread], row->stack,
                     chunk_weigh(row->value, window->weight));
    }
}

static int compare_begins(const void *left, const void *right) {
    const struct chunk_window *a = left, *b = right;
    return (a->begin_unix_s > b->begin_unix_s) - (a->begin_unix_s < b->begin_unix_s);
}

/* Adds the windows [first, end) of `from` as one window, with their rows summed. */
static void join_windows(struct finish *finish, const struct chunk *from, size_t first,
                         size_t end) {
    struct chunk_window joined = from->windows[first];
    for (size_t i = first; i < end; i++) {
        const struct chunk_window *window = &from->windows[i];
        joined.length_s += i > first ? window->length_s : 0;
        for (uint32_t row = 0; row < window->row_count; row++)
            sums_add(&finish->minute, 0, from->rows[window->first_row + row].stack,
                     from->rows[window->first_row + row].value);
    }
    chunk_add_window(&finish->coarse, &joined);
    size_t count = sums_sort(&finish->minute);
    for (size_t i = 0; i < count; i++)
        chunk_add_row(&finish->coarse, (uint32_t)(finish->minute.items[i].key - 1), 0,
                      finish->minute.items[i].value);
    sums_clear(&finish->minute);
}

/* Replaces `large` by one window per minute. */
static void coarsen(struct finish *finish) {
    struct chunk *large = &finish->large;
    qsort(large->windows, large->window_count, sizeof *large->windows, compare_begins);
    chunk_clear(&finish->coarse);
    text_list_number(&finish->coarse.threads, "");
    for (size_t first = 0, end; first < large->window_count; first = end) {
        int64_t minute = large->windows[first].begin_unix_s / MINUTE_S;
        for (end = first + 1; end < large->window_count; end++)
            if (large->windows[end].begin_unix_s / MINUTE_S != minute)
                break;
        join_windows(finish, large, first, end);
    }
    struct chunk coarse = finish->coarse;
    finish->coarse = *large;
    *large = coarse;
}

/* Replaces the chunks that `large` is made of. */
static void flush(struct finish *finish) {
    struct db *db = finish->db;
    struct chunk *large = &finish->large;
    if (large->window_count == 0)
        return;
    if (finish->is_host)
        coarsen(finish);
    if (large->failed || large->threads.failed || finish->minute.failed)
        db_out_of_memory(db);
    chunk_encode(large, &db->scratch);
    db_run(db, CHUNK_DELETE, "ii", finish->first_key, finish->last_key);
    db_run(db, CHUNK_ADD, "iib", finish->first_key, finish->last_minute, db_pack(db, FINISH_LEVEL));
    chunk_clear(large);
}

static void add_chunk(struct finish *finish, int64_t key, int64_t last_minute) {
    struct chunk *large = &finish->large;
    bool is_large =
        large->row_count >= LARGE_ROWS && key_minute(key) > key_minute(finish->last_key);
    if (is_large || chunk_bytes(large) + chunk_bytes(&finish->small) > LARGE_BYTES)
        flush(finish);
    if (large->window_count == 0) {
        finish->first_key = key;
        finish->last_minute = last_minute;
    }
    finish->last_key = key;
    finish->last_minute = last_minute > finish->last_minute ? last_minute : finish->last_minute;
    sum_up(finish, &finish->small);
    chunk_append(large, &finish->small);
}

/* The rows of the rollup. They are left out if summing up saves little: queries read the chunks. */
static struct sonde_slice rollup_rows(struct finish *finish, int64_t hour) {
    struct chunk *rollup = &finish->large;
    if (finish->is_state || finish->sums.count > finish->rows - finish->rows / 4)
        return (struct sonde_slice){0};
    chunk_clear(rollup);
    for (size_t i = 0; i < finish->threads.count; i++)
        text_list_number(&rollup->threads, finish->threads.texts[i]);
    chunk_add_window(rollup, &(struct chunk_window){.stream = finish->stream,
                                                    .begin_unix_s = hour * HOUR_S,
                                                    .length_s = HOUR_S,
                                                    .period_ns = finish->tally.period_ns,
                                                    .weight = 1});
    size_t count = sums_sort(&finish->sums);
    for (size_t i = 0; i < count; i++) {
        uint64_t key = finish->sums.items[i].key - 1;
        chunk_add_row(rollup, (uint32_t)key, (uint32_t)(key >> 32), finish->sums.items[i].value);
    }
    if (rollup->failed || rollup->threads.failed)
        db_out_of_memory(finish->db);
    chunk_encode(rollup, &finish->db->scratch);
    return db_pack(finish->db, FINISH_LEVEL);
}

static void add_rollup(struct finish *finish, int64_t hour) {
    struct db *db = finish->db;
    if (finish->sums.failed || finish->tally.failed || finish->threads.failed)
        db_out_of_memory(db);
    tally_encode(&finish->tally, &db->scratch);
    struct sonde_slice packed = db_pack(db, FINISH_LEVEL);
    struct sonde_buf tally = {0};
    sonde_buf_append(&tally, packed.data, packed.len);
    struct sonde_slice rows = rollup_rows(finish, hour);
    if (tally.failed)
        db_out_of_memory(db);
    db_run(db, ROLLUP_SET, rows.data ? "ibb" : "ibn", key_rollup(finish->stream, hour),
           sonde_buf_slice(&tally), rows);
    sonde_buf_finish(&tally);
}

static void read_kind(struct finish *finish) {
    sqlite3_stmt *row = db_start(finish->db, STREAM_KIND, "i", (int64_t)finish->stream);
    if (db_row(finish->db, row)) {
        finish->is_host = sqlite3_column_int(row, 0) == SERVICE_HOST;
        finish->is_state = !finish->is_host && sonde_event_is_state(db_text(row, 1));
    }
    db_stop(row);
}

void finish_hour(struct db *db, uint32_t stream, int64_t hour) {
    struct finish finish = {.db = db, .stream = stream};
    read_kind(&finish);
    int64_t next = key_chunk(stream, hour * HOUR_MINUTES);
    int64_t end = key_chunk(stream, (hour + 1) * HOUR_MINUTES) - 1;
    while (!db->failure) {
        sqlite3_stmt *row = db_start(db, CHUNK_NEXT, "ii", next, end);
        if (!db_row(db, row))
            break;
        int64_t key = sqlite3_column_int64(row, 0), last = sqlite3_column_int64(row, 1);
        struct sonde_slice raw = db_unpack(db, db_blob(row, 2));
        db_stop(row);
        if (!raw.data || !chunk_decode(&finish.small, raw, true))
            db_damaged(db);
        else
            add_chunk(&finish, key, last);
        next = key + 1;
    }
    flush(&finish);
    if (!db->failure)
        add_rollup(&finish, hour);
    db_run(db, HOUR_CLEAN, "ii", (int64_t)stream, hour);
    chunk_finish(&finish.small);
    chunk_finish(&finish.large);
    chunk_finish(&finish.coarse);
    tally_finish(&finish.tally);
    sums_finish(&finish.sums);
    sums_finish(&finish.minute);
    text_list_finish(&finish.threads);
    free(finish.map);
}

void finish_delete(struct db *db, uint32_t stream, int64_t hour) {
    db_run(db, CHUNK_DELETE, "ii", key_chunk(stream, hour * HOUR_MINUTES),
           key_chunk(stream, (hour + 1) * HOUR_MINUTES) - 1);
    db_run(db, ROLLUP_DELETE, "i", key_rollup(stream, hour));
    db_run(db, HOUR_DELETE, "ii", (int64_t)stream, hour);
}
