/* SPDX-License-Identifier: Apache-2.0
 *
 * A put writes one chunk with the windows of all streams. Here some of them are sorted out:
 *
 *     mixed     | a b c | a b | b c |          the windows of 10 minutes
 *     streams   | a a |   | b b b |   | c c |
 *
 * Late windows reach hours that are finished, which are then dirty and will be finished again. */
#include "api/base/array.h"
#include "service/store/sqlite/db/keys.h"
#include "service/store/sqlite/engine.h"
#include "service/store/sqlite/finish.h"
#include "service/store/sqlite/format/chunk.h"

#include <stdlib.h>
#include <string.h>

#define SPLIT_LEVEL 1
#define SPLIT_ROWS  2000000 /* of one transaction */

struct split {
    struct db *db;
    struct chunk mixed;
    struct chunk *streams; /* by number */
    size_t stream_count;
    int64_t hour;
    struct engine_counts counts; /* of the mixed chunks */
    size_t rows;
};

static struct chunk *chunk_of(struct split *split, uint32_t stream) {
    size_t before = split->stream_count;
    if (stream > KEY_MAX_STREAM) {
        db_damaged(split->db);
        return NULL;
    }
    if (!array_room(&split->streams, &split->stream_count, stream, 1)) {
        db_out_of_memory(split->db);
        return NULL;
    }
    if (split->stream_count > before)
        memset(split->streams + before, 0, (split->stream_count - before) * sizeof(struct chunk));
    return &split->streams[stream];
}

static bool is_host(struct db *db, uint32_t stream) {
    return db_number(db, SERVICE_RECORDED, STREAM_KIND, "i", (int64_t)stream) == SERVICE_HOST;
}

static void flush(struct split *split, uint32_t stream) {
    struct chunk *chunk = &split->streams[stream];
    struct engine_counts counts = engine_count(chunk);
    if (chunk->window_count == 0)
        return;
    engine_add_chunk(split->db, stream, counts.first / MINUTE_S, counts.last_minute, chunk,
                     SPLIT_LEVEL);
    db_run(split->db, HOUR_ADD, "iiiiiii", (int64_t)stream, split->hour, counts.windows,
           counts.samples, counts.dropped, counts.first, counts.last);
    if (!is_host(split->db, stream))
        split->counts.windows -= counts.windows;
    split->counts.samples -= counts.samples;
    split->counts.dropped -= counts.dropped;
    chunk_clear(chunk);
}

/* Adds a window of the mixed chunk to its stream's. */
static void move(struct split *split, const struct chunk_window *window) {
    struct chunk *chunk = chunk_of(split, window->stream);
    if (!chunk)
        return;
    if (chunk_bytes(chunk) > PACK_MAX_BYTES / 4)
        flush(split, window->stream);
    const struct chunk_row *rows = split->mixed.rows + window->first_row;
    chunk_add_window(chunk, window);
    for (uint32_t i = 0; i < window->row_count; i++) {
        const char *thread = split->mixed.threads.texts[rows[i].thread];
        chunk_add_row(chunk, rows[i].stack, text_list_number(&chunk->threads, thread),
                      rows[i].value);
    }
    split->rows += window->row_count;
    if (chunk->failed || chunk->threads.failed)
        db_out_of_memory(split->db);
}

/* Moves the windows of the next mixed chunk of the hour. */
static bool move_next(struct split *split, int64_t end) {
    sqlite3_stmt *row = db_start(split->db, CHUNK_NEXT, "ii", key_chunk(KEY_MIXED, 0), end);
    if (!db_row(split->db, row))
        return false;
    int64_t key = sqlite3_column_int64(row, 0), hour = key_minute(key) / HOUR_MINUTES;
    bool is_next = split->rows == 0 || hour == split->hour;
    split->hour = is_next ? hour : split->hour;
    struct sonde_slice raw = db_unpack(split->db, db_blob(row, 2));
    db_stop(row);
    if (!is_next)
        return false;
    if (raw.data && !chunk_decode(&split->mixed, raw, true))
        db_damaged(split->db);
    for (size_t i = 0; i < split->mixed.window_count && !split->db->failure; i++)
        move(split, &split->mixed.windows[i]);
    db_run(split->db, CHUNK_DELETE, "ii", key, key);
    split->rows++;
    return !split->db->failure;
}

bool finish_split(struct db *db, int64_t minute) {
    struct split split = {.db = db};
    while (split.rows < SPLIT_ROWS && move_next(&split, key_chunk(KEY_MIXED, minute) - 1))
        continue;
    for (size_t i = 0; i < split.stream_count && !db->failure; i++)
        flush(&split, (uint32_t)i);
    if (split.rows) {
        /* The rest of the hour's mixed chunks is counted by what was not subtracted. */
        db_run(db, HOUR_ADD, "iiiiiii", (int64_t)KEY_MIXED, split.hour, split.counts.windows,
               split.counts.samples, split.counts.dropped, INT64_MAX, (int64_t)0);
        if (!db_number(db, 0, CHUNK_COUNT, "ii", key_chunk(KEY_MIXED, split.hour * HOUR_MINUTES),
                       key_chunk(KEY_MIXED, (split.hour + 1) * HOUR_MINUTES) - 1))
            db_run(db, HOUR_DELETE, "ii", (int64_t)KEY_MIXED, split.hour);
    }
    for (size_t i = 0; i < split.stream_count; i++)
        chunk_finish(&split.streams[i]);
    free(split.streams);
    chunk_finish(&split.mixed);
    return split.rows > 0;
}
