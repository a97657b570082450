/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/sqlite/read/scan.h"

#include "api/base/array.h"

#include <stdlib.h>

#define LAST_TIME 4102444800 /* the year 2100 */

static int64_t clamp_time(int64_t time) {
    return time < 0 ? 0 : time > LAST_TIME ? LAST_TIME : time;
}

void scan_init(struct scan *scan, struct db *db, const struct store_query *query) {
    *scan = (struct scan){.db = db, .query = query};
    scan->from = clamp_time(query->from_unix_s);
    scan->until = clamp_time(query->until_unix_s);
    labelsets_init(&scan->sets, db, query->selector);
}

void scan_finish(struct scan *scan) {
    labelsets_finish(&scan->sets);
    chunk_finish(&scan->chunk);
    tally_finish(&scan->tally);
    text_list_finish(&scan->threads);
    free(scan->thread_map);
}

/* Decodes into scan->chunk. */
static bool load_chunk(struct scan *scan, struct sonde_slice packed, bool with_rows) {
    struct sonde_slice raw = db_unpack(scan->db, packed);
    if (!raw.data)
        return false;
    if (!chunk_decode(&scan->chunk, raw, with_rows) ||
        !array_room(&scan->thread_map, &scan->map_capacity, 0, scan->chunk.threads.count)) {
        db_damaged(scan->db);
        return false;
    }
    for (size_t i = 0; with_rows && i < scan->chunk.threads.count; i++)
        scan->thread_map[i] = text_list_number(&scan->threads, scan->chunk.threads.texts[i]);
    if (scan->threads.failed)
        db_out_of_memory(scan->db);
    return !scan->threads.failed;
}

bool scan_row_matches(struct scan *scan, struct labelset *set, uint32_t thread) {
    return labelsets_match_thread(&scan->sets, set, thread, scan->threads.texts[thread]);
}

static bool window_matches(struct scan *scan, const struct chunk_window *window,
                           struct labelset *set) {
    if (!scan->sets.names_thread)
        return labelsets_match(&scan->sets, set);
    const struct chunk_row *rows = scan->chunk.rows + window->first_row;
    for (uint32_t i = 0; i < window->row_count; i++)
        if (scan_row_matches(scan, set, scan->thread_map[rows[i].thread]))
            return true;
    return false;
}

static void visit_chunk(struct scan *scan, struct sonde_slice packed) {
    const struct scan_visitor *visitor = scan->visitor;
    if (!load_chunk(scan, packed, visitor->with_rows || scan->sets.names_thread))
        return;
    for (size_t i = 0; i < scan->chunk.window_count && !scan->db->failure; i++) {
        const struct chunk_window *window = &scan->chunk.windows[i];
        if (window->begin_unix_s < scan->from || window->begin_unix_s >= scan->until ||
            window->stream != scan->stream)
            continue;
        struct labelset *set = labelsets_get(&scan->sets, window->labels);
        if (!set || !window_matches(scan, window, set))
            continue;
        visitor->on_window(visitor->context, scan, window, set);
        scan->ordinal++;
    }
}

static void check_stop(struct scan *scan) {
    struct sonde_diag diag = {0};
    sonde_err err = store_stop_check(scan->query->stop, &diag);
    if (err)
        db_fail(scan->db, err, sonde_diag_text(&diag, err));
}

/* The chunks of a stream, or mixed ones, in some hours. */
static void visit_chunks(struct scan *scan, uint32_t stream, int64_t first_hour,
                         int64_t last_hour) {
    int64_t end = (last_hour + 1) * HOUR_MINUTES;
    int64_t until = (scan->until + MINUTE_S - 1) / MINUTE_S;
    end = until < end ? until : end;
    sqlite3_stmt *row =
        db_start(scan->db, CHUNK_READ, "iii", key_chunk(stream, first_hour * HOUR_MINUTES),
                 key_chunk(stream, end) - 1, scan->from / MINUTE_S);
    while (db_row(scan->db, row)) {
        check_stop(scan);
        visit_chunk(scan, db_blob(row, 2));
    }
    db_stop(row);
}

enum fit { FIT_NONE, FIT_SOME, FIT_ALL };

static enum fit fit_of(struct scan *scan) {
    if (!scan->query->selector)
        return FIT_ALL;
    size_t matches = 0;
    for (size_t i = 0; i < scan->tally.count; i++) {
        struct labelset *set = labelsets_get(&scan->sets, scan->tally.entries[i].labels);
        matches += set && labelsets_match(&scan->sets, set);
    }
    return matches == 0 ? FIT_NONE : matches == scan->tally.count ? FIT_ALL : FIT_SOME;
}

/* Visits the rollup if it can answer. */
static bool visit_rollup(struct scan *scan) {
    const struct scan_visitor *visitor = scan->visitor;
    if (!visitor->on_hour || scan->sets.names_thread || scan->hour * HOUR_S < scan->from ||
        (scan->hour + 1) * HOUR_S > scan->until)
        return false;
    sqlite3_stmt *row = db_start(scan->db, ROLLUP_READ, "i", key_rollup(scan->stream, scan->hour));
    bool is_done = false;
    if (db_row(scan->db, row)) {
        struct sonde_slice raw = db_unpack(scan->db, db_blob(row, 0));
        if (raw.data && !tally_decode(&scan->tally, raw))
            db_damaged(scan->db);
        enum fit fit = scan->db->failure ? FIT_NONE : fit_of(scan);
        bool has_rows = !visitor->with_rows || sqlite3_column_type(row, 1) != SQLITE_NULL;
        is_done = fit == FIT_NONE || ((fit == FIT_ALL || visitor->is_partial) && has_rows);
        chunk_clear(&scan->chunk);
        bool is_read = fit != FIT_NONE && is_done &&
                       (!visitor->with_rows || load_chunk(scan, db_blob(row, 1), true));
        if (is_read)
            visitor->on_hour(visitor->context, scan, &scan->tally, &scan->chunk);
    }
    db_stop(row);
    return is_done;
}

static void visit_stream(struct scan *scan) {
    sqlite3_stmt *row = db_start(scan->db, HOUR_READ, "iii", (int64_t)scan->stream,
                                 scan->from / HOUR_S, (scan->until - 1) / HOUR_S);
    labelsets_set_stream(&scan->sets, scan->stream, scan->service_name, scan->event);
    while (db_row(scan->db, row)) {
        check_stop(scan);
        scan->hour = sqlite3_column_int64(row, 0);
        bool is_dirty = sqlite3_column_int(row, 1) != 0;
        if (is_dirty || !visit_rollup(scan))
            visit_chunks(scan, scan->stream, scan->hour, scan->hour);
    }
    db_stop(row);
    visit_chunks(scan, KEY_MIXED, scan->from / HOUR_S, (scan->until - 1) / HOUR_S);
    if (scan->visitor->on_stream_end && !scan->db->failure)
        scan->visitor->on_stream_end(scan->visitor->context, scan);
}

void scan_run(struct scan *scan, const struct scan_visitor *visitor) {
    const struct store_query *query = scan->query;
    const char *service = query->service ? query->service : "";
    const char *event = query->event ? query->event : "";
    scan->visitor = visitor;
    scan->ordinal = 0;
    if (scan->until <= scan->from)
        return;
    sqlite3_stmt *row =
        db_start(scan->db, STREAM_LIST, "itt", (int64_t)visitor->kind, service, event);
    while (db_row(scan->db, row)) {
        scan->stream = (uint32_t)sqlite3_column_int64(row, 0);
        scan->service = (uint32_t)sqlite3_column_int64(row, 1);
        scan->service_name = db_text(row, 2);
        scan->event = db_text(row, 3);
        visit_stream(scan);
    }
    db_stop(row);
}
