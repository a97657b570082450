/* SPDX-License-Identifier: Apache-2.0
 *
 * Marks what chunks and rollups use, from hours to stacks to frames to texts, and deletes the rest.
 * The marks are bits by number: 60 KB for half a million stacks. */
#include "api/base/array.h"
#include "service/store/sqlite/db/keys.h"
#include "service/store/sqlite/engine.h"
#include "service/store/sqlite/format/chunk.h"
#include "service/store/sqlite/format/tally.h"
#include "service/store/sqlite/format/varint.h"

#include <stdlib.h>
#include <string.h>

struct bits {
    uint64_t *words;
    size_t capacity; /* words */
};

struct clean {
    struct db *db;
    struct bits *stacks; /* by service */
    size_t service_count;
    uint32_t *services; /* by stream */
    size_t stream_count;
    struct bits hosts; /* services that are hosts' totals */
    struct bits streams, labels, frames, texts, modules;
    struct chunk chunk;
    struct tally tally;
};

static void mark(struct clean *clean, struct bits *bits, uint64_t number) {
    size_t word = number / 64, before = bits->capacity;
    if (number > UINT32_MAX) {
        db_damaged(clean->db);
        return;
    }
    if (!array_room(&bits->words, &bits->capacity, word, 1)) {
        db_out_of_memory(clean->db);
        return;
    }
    if (bits->capacity > before)
        memset(bits->words + before, 0, (bits->capacity - before) * sizeof *bits->words);
    bits->words[word] |= UINT64_C(1) << number % 64;
}

static bool is_marked(const struct bits *bits, uint64_t number) {
    return number / 64 < bits->capacity && (bits->words[number / 64] >> number % 64 & 1);
}

/* The marks of a service's stacks, or of a stream's service. */
static struct bits *stacks_of(struct clean *clean, uint32_t service) {
    size_t before = clean->service_count;
    if (!array_room(&clean->stacks, &clean->service_count, service, 1)) {
        db_out_of_memory(clean->db);
        return NULL;
    }
    if (clean->service_count > before)
        memset(clean->stacks + before, 0, (clean->service_count - before) * sizeof *clean->stacks);
    return &clean->stacks[service];
}

static void read_streams(struct clean *clean) {
    sqlite3_stmt *row = db_start(clean->db, ALL_STREAMS, "");
    while (db_row(clean->db, row)) {
        uint32_t stream = (uint32_t)sqlite3_column_int64(row, 0);
        uint32_t service = (uint32_t)sqlite3_column_int64(row, 1);
        if (!array_room(&clean->services, &clean->stream_count, stream, 1))
            db_out_of_memory(clean->db);
        else
            clean->services[stream] = service;
        if (sqlite3_column_int(row, 2) == SERVICE_HOST)
            mark(clean, &clean->hosts, service);
    }
}

/* Marks what a chunk uses; the label sets of a rollup are in its tally. */
static void mark_chunk(struct clean *clean, struct sonde_slice packed, bool is_rollup) {
    struct sonde_slice raw = db_unpack(clean->db, packed);
    if (raw.data && !chunk_decode(&clean->chunk, raw, true))
        db_damaged(clean->db);
    for (size_t i = 0; i < clean->chunk.window_count && !clean->db->failure; i++) {
        const struct chunk_window *window = &clean->chunk.windows[i];
        const struct chunk_row *rows = clean->chunk.rows + window->first_row;
        if (window->stream >= clean->stream_count) {
            db_damaged(clean->db);
            return;
        }
        mark(clean, &clean->streams, window->stream);
        if (!is_rollup)
            mark(clean, &clean->labels, window->labels);
        struct bits *stacks = stacks_of(clean, clean->services[window->stream]);
        for (uint32_t row = 0; stacks && row < window->row_count && !clean->db->failure; row++)
            mark(clean, stacks, rows[row].stack);
    }
}

/* Whether the rollup says all that there is to know. */
static bool mark_rollup(struct clean *clean, uint32_t stream, int64_t hour) {
    sqlite3_stmt *row = db_start(clean->db, ROLLUP_READ, "i", key_rollup(stream, hour));
    bool is_done = false;
    if (db_row(clean->db, row) && sqlite3_column_type(row, 1) != SQLITE_NULL) {
        struct sonde_slice raw = db_unpack(clean->db, db_blob(row, 0));
        if (raw.data && !tally_decode(&clean->tally, raw))
            db_damaged(clean->db);
        for (size_t i = 0; i < clean->tally.count && !clean->db->failure; i++)
            mark(clean, &clean->labels, clean->tally.entries[i].labels);
        mark_chunk(clean, db_blob(row, 1), true);
        is_done = true;
    }
    db_stop(row);
    return is_done;
}

static void mark_hours(struct clean *clean) {
    sqlite3_stmt *hours = db_start(clean->db, ALL_HOURS, "");
    while (db_row(clean->db, hours)) {
        uint32_t stream = (uint32_t)sqlite3_column_int64(hours, 0);
        int64_t hour = sqlite3_column_int64(hours, 1);
        if (!sqlite3_column_int(hours, 2) && mark_rollup(clean, stream, hour))
            continue;
        sqlite3_stmt *row =
            db_start(clean->db, CHUNK_READ, "iii", key_chunk(stream, hour * HOUR_MINUTES),
                     key_chunk(stream, (hour + 1) * HOUR_MINUTES) - 1, (int64_t)0);
        while (db_row(clean->db, row))
            mark_chunk(clean, db_blob(row, 2), false);
    }
}

/* Marks the numbers in a blob: every one, or those of lines, whose third number is no text. */
static void mark_numbers(struct clean *clean, struct sonde_slice blob, struct bits *bits,
                         bool is_lines) {
    struct varint_reader reader = varint_reader(blob.data, blob.len);
    for (int i = 0; reader.at < reader.end && !clean->db->failure; i++) {
        uint64_t number = varint_get(&reader);
        if (!is_lines || i % 3 != 2)
            mark(clean, bits, number);
    }
    if (reader.failed)
        db_damaged(clean->db);
}

static void sweep_stacks(struct clean *clean) {
    sqlite3_stmt *row = db_start(clean->db, ALL_STACKS, "");
    while (db_row(clean->db, row)) {
        int64_t key = sqlite3_column_int64(row, 0);
        uint32_t service = (uint32_t)(key >> 32);
        struct bits *stacks = stacks_of(clean, service);
        if (stacks && !is_marked(stacks, (uint32_t)key))
            db_run(clean->db, STACK_DELETE, "i", key);
        else if (stacks && !is_marked(&clean->hosts, service))
            mark_numbers(clean, db_blob(row, 1), &clean->frames, false);
    }
}

static void sweep_frames(struct clean *clean) {
    sqlite3_stmt *row = db_start(clean->db, ALL_FRAMES, "");
    while (db_row(clean->db, row)) {
        int64_t number = sqlite3_column_int64(row, 0);
        if (!is_marked(&clean->frames, (uint64_t)number)) {
            db_run(clean->db, FRAME_DELETE, "i", number);
            continue;
        }
        mark(clean, &clean->modules, (uint64_t)sqlite3_column_int64(row, 1));
        mark_numbers(clean, db_blob(row, 2), &clean->texts, true);
    }
}

static void sweep(struct clean *clean, enum statement all, const struct bits *used,
                  enum statement delete) {
    sqlite3_stmt *row = db_start(clean->db, all, "");
    while (db_row(clean->db, row)) {
        int64_t number = sqlite3_column_int64(row, 0);
        if (!is_marked(used, (uint64_t)number))
            db_run(clean->db, delete, "i", number);
    }
}

void engine_clean(struct db *db) {
    struct clean clean = {.db = db};
    read_streams(&clean);
    mark_hours(&clean);
    sweep_stacks(&clean);
    sweep_frames(&clean);
    sweep(&clean, ALL_TEXTS, &clean.texts, TEXT_DELETE);
    sweep(&clean, ALL_MODULES, &clean.modules, MODULE_DELETE);
    sweep(&clean, ALL_LABELS, &clean.labels, LABELS_DELETE);
    sweep(&clean, ALL_STREAMS, &clean.streams, STREAM_DELETE);
    db_run(db, SERVICES_UNUSED, "");
    for (size_t i = 0; i < clean.service_count; i++)
        free(clean.stacks[i].words);
    free(clean.stacks);
    free(clean.services);
    struct bits *bits[] = {&clean.hosts,  &clean.streams, &clean.labels,
                           &clean.frames, &clean.texts,   &clean.modules};
    for (size_t i = 0; i < sizeof bits / sizeof bits[0]; i++)
        free(bits[i]->words);
    chunk_finish(&clean.chunk);
    tally_finish(&clean.tally);
}
