/* SPDX-License-Identifier: Apache-2.0
 *
 * Deletes windows whose time is over where that depends on their labels (struct store_keep). The
 * tally of a finished hour lists the label sets of its windows, so an hour is read only if some of
 * them, but not all, are too old. Hours reach a limit one after the other: only those that have
 * reached one since the last look are looked at. */
#include "service/store/sqlite/engine.h"
#include "service/store/sqlite/finish.h"
#include "service/store/sqlite/format/chunk.h"
#include "service/store/sqlite/format/tally.h"
#include "service/store/sqlite/read/labelset.h"

#include <stdio.h>

#define EXPIRE_HOURS 64 /* looked at in one transaction */
#define EXPIRE_LEVEL 6  /* zstd's */
#define EXPIRE_ALL_S 86400

/* An hour of a stream. */
struct expire {
    struct db *db;
    const struct store_limits *limits;
    struct labelsets sets;
    const struct labelset *current;
    uint32_t stream;
    bool is_host;
    int64_t hour, now_unix_s;
    struct chunk chunk, kept;
    struct tally tally;
};

static const char *on_value(void *context, const char *name) {
    const struct expire *expire = context;
    return labelset_value(&expire->sets, expire->current, name);
}

/* Totals of hosts have no rules of their own. */
static uint32_t keep_of(struct expire *expire, const struct labelset *set) {
    const struct store_limits *limits = expire->limits;
    expire->current = set;
    for (size_t i = 0; i < limits->keep_count && !expire->is_host; i++)
        if (selector_matches(limits->keeps[i].selector, on_value, expire))
            return limits->keeps[i].keep_s;
    return limits->keep_s;
}

static bool is_over(struct expire *expire, uint32_t labels) {
    const struct labelset *set = labelsets_get(&expire->sets, labels);
    uint32_t keep_s = set ? keep_of(expire, set) : 0;
    return keep_s && expire->hour < (expire->now_unix_s - (int64_t)keep_s) / HOUR_S;
}

/* How many label sets of the hour are over, of how many. */
static size_t count_over(struct expire *expire, size_t *count) {
    sqlite3_stmt *row =
        db_start(expire->db, ROLLUP_READ, "i", key_rollup(expire->stream, expire->hour));
    size_t over = 0;
    *count = 0;
    if (db_row(expire->db, row)) {
        struct sonde_slice raw = db_unpack(expire->db, db_blob(row, 0));
        if (raw.data && !tally_decode(&expire->tally, raw))
            db_damaged(expire->db);
        *count = expire->db->failure ? 0 : expire->tally.count;
    }
    db_stop(row);
    for (size_t i = 0; i < *count; i++)
        over += is_over(expire, expire->tally.entries[i].labels);
    return over;
}

/* Copies the windows that are not over. */
static void filter(struct expire *expire) {
    const struct chunk *chunk = &expire->chunk;
    chunk_clear(&expire->kept);
    for (size_t i = 0; i < chunk->threads.count; i++)
        text_list_number(&expire->kept.threads, chunk->threads.texts[i]);
    for (size_t i = 0; i < chunk->window_count; i++) {
        const struct chunk_window *window = &chunk->windows[i];
        const struct chunk_row *row = chunk->rows + window->first_row;
        if (is_over(expire, window->labels))
            continue;
        chunk_add_window(&expire->kept, window);
        for (uint32_t n = 0; n < window->row_count; n++, row++)
            chunk_add_row(&expire->kept, row->stack, row->thread, row->value);
    }
    if (expire->kept.failed || expire->kept.threads.failed)
        db_out_of_memory(expire->db);
}

static void add_counts(struct engine_counts *sum, const struct engine_counts *more) {
    sum->windows += more->windows;
    sum->samples += more->samples;
    sum->dropped += more->dropped;
    sum->first = more->first < sum->first ? more->first : sum->first;
    sum->last = more->last > sum->last ? more->last : sum->last;
}

/* Replaces a chunk by what is kept of it. */
static void rewrite_chunk(struct expire *expire, int64_t key, struct engine_counts *sum) {
    struct db *db = expire->db;
    filter(expire);
    struct engine_counts counts = engine_count(&expire->kept);
    db_run(db, CHUNK_DELETE, "ii", key, key);
    if (expire->kept.window_count == 0 || db->failure)
        return;
    add_counts(sum, &counts);
    chunk_encode(&expire->kept, &db->scratch);
    db_run(db, CHUNK_ADD, "iib", key, counts.last_minute, db_pack(db, EXPIRE_LEVEL));
}

static void rewrite_hour(struct expire *expire) {
    struct db *db = expire->db;
    struct engine_counts sum = {.first = INT64_MAX};
    int64_t next = key_chunk(expire->stream, expire->hour * HOUR_MINUTES);
    int64_t end = key_chunk(expire->stream, (expire->hour + 1) * HOUR_MINUTES) - 1;
    while (!db->failure) {
        sqlite3_stmt *row = db_start(db, CHUNK_NEXT, "ii", next, end);
        if (!db_row(db, row))
            break;
        int64_t key = sqlite3_column_int64(row, 0);
        struct sonde_slice raw = db_unpack(db, db_blob(row, 2));
        db_stop(row);
        if (!raw.data || !chunk_decode(&expire->chunk, raw, true))
            db_damaged(db);
        else
            rewrite_chunk(expire, key, &sum);
        next = key + 1;
    }
    db_run(db, HOUR_DELETE, "ii", (int64_t)expire->stream, expire->hour);
    db_run(db, HOUR_ADD, "iiiiiii", (int64_t)expire->stream, expire->hour, sum.windows, sum.samples,
           sum.dropped, sum.first, sum.last);
    finish_hour(db, expire->stream, expire->hour);
}

/* Whether something was deleted. */
static bool expire_hour(struct expire *expire) {
    size_t count, over = count_over(expire, &count);
    if (over == 0 || expire->db->failure)
        return false;
    if (over == count)
        finish_delete(expire->db, expire->stream, expire->hour);
    else
        rewrite_hour(expire);
    return true;
}

bool engine_expires_all(const struct engine *engine, int64_t now_unix_s) {
    return now_unix_s - engine->expired_all_unix_s >= EXPIRE_ALL_S;
}

static bool has_reached(int64_t hour, uint32_t keep_s, int64_t since_unix_s, int64_t now_unix_s) {
    return keep_s && hour >= (since_unix_s - (int64_t)keep_s) / HOUR_S &&
           hour < (now_unix_s - (int64_t)keep_s) / HOUR_S;
}

/* Whether the hour has reached the limit of some windows since the last look. */
static bool is_due(const struct engine *engine, const struct expire *expire) {
    const struct store_limits *limits = expire->limits;
    int64_t since = engine->expired_unix_s, now = expire->now_unix_s;
    bool is_due =
        engine_expires_all(engine, now) || has_reached(expire->hour, limits->keep_s, since, now);
    for (size_t i = 0; i < limits->keep_count && !is_due; i++)
        is_due = has_reached(expire->hour, limits->keeps[i].keep_s, since, now);
    return is_due;
}

bool engine_expire(struct engine *engine, int64_t now_unix_s) {
    struct db *db = &engine->writer;
    struct expire expire = {.db = db, .limits = &engine->limits, .now_unix_s = now_unix_s};
    bool has_more = true;
    labelsets_init(&expire.sets, db, NULL);
    for (int i = 0; i < EXPIRE_HOURS && has_more; i++) {
        char service[STORE_MAX_TEXT + 1], event[STORE_MAX_TEXT + 1];
        sqlite3_stmt *row = db_start(db, HOUR_AFTER, "iii", now_unix_s / HOUR_S - 1,
                                     (int64_t)engine->expired_stream, engine->expired_hour);
        has_more = db_row(db, row);
        if (!has_more)
            break;
        engine->expired_stream = expire.stream = (uint32_t)sqlite3_column_int64(row, 0);
        engine->expired_hour = expire.hour = sqlite3_column_int64(row, 1);
        expire.is_host = sqlite3_column_int(row, 2) == SERVICE_HOST;
        snprintf(service, sizeof service, "%s", db_text(row, 3));
        snprintf(event, sizeof event, "%s", db_text(row, 4));
        db_stop(row);
        if (!is_due(engine, &expire))
            continue;
        labelsets_set_stream(&expire.sets, expire.stream, service, event);
        engine->has_deleted |= expire_hour(&expire);
    }
    if (!has_more)
        engine->expired_stream = 0;
    labelsets_finish(&expire.sets);
    chunk_finish(&expire.chunk);
    chunk_finish(&expire.kept);
    tally_finish(&expire.tally);
    return has_more && !db->failure;
}
