/* SPDX-License-Identifier: Apache-2.0
 *
 * Finishes hours, and deletes whole hours that are too old or too much, and windows by their
 * labels. Each step is a transaction of its own, so that puts wait for a short time only. */
#include "service/store/sqlite/db/keys.h"
#include "service/store/sqlite/engine.h"
#include "service/store/sqlite/finish.h"

#define LATE_S       120         /* windows come that late */
#define MANY_MIXED   60          /* mixed chunks */
#define CLEAN_S      (6 * 3600)  /* between two searches for unused stacks */
#define LOG_BYTES    (32u << 20) /* what the write-ahead log may take */
#define DELIVERIES_S (24 * 3600) /* deliveries are known for that much longer */

/* Runs `step` in a transaction; it returns whether there is more to do. */
typedef bool maintain_step(struct engine *engine, int64_t limit);

static sonde_err repeat(struct engine *engine, maintain_step *step, int64_t limit,
                        struct sonde_diag *diag) {
    bool has_more = true;
    sonde_err err = SONDE_OK;
    while (has_more && !err) {
        lock_take(&engine->write_lock);
        db_begin(&engine->writer);
        has_more = step(engine, limit);
        err = db_end(&engine->writer, diag);
        if (err)
            numbers_clear(&engine->numbers);
        lock_drop(&engine->write_lock);
    }
    return err;
}

/* The stream and hour that a statement finds. */
static bool find_hour(struct db *db, enum statement statement, int64_t limit, uint32_t *stream,
                      int64_t *hour) {
    sqlite3_stmt *row = db_start(db, statement, "i", limit);
    bool is_found = db_row(db, row);
    if (is_found) {
        *stream = (uint32_t)sqlite3_column_int64(row, 0);
        *hour = sqlite3_column_int64(row, 1);
    }
    db_stop(row);
    return is_found;
}

static bool split_some(struct engine *engine, int64_t minute_limit) {
    return finish_split(&engine->writer, minute_limit);
}

/* The minute before which mixed chunks are split: those of finished hours, and all others when
 * there are many. */
static int64_t split_limit(struct engine *engine, int64_t now_unix_s) {
    lock_take(&engine->write_lock);
    int64_t count = db_number(&engine->writer, 0, CHUNK_COUNT, "ii", key_chunk(KEY_MIXED, 0),
                              key_chunk(KEY_MIXED + 1, 0) - 1);
    lock_drop(&engine->write_lock);
    int64_t hour = (now_unix_s - LATE_S) / HOUR_S;
    return count >= MANY_MIXED ? now_unix_s / MINUTE_S - 1 : hour * HOUR_MINUTES;
}

static bool finish_one(struct engine *engine, int64_t hour_limit) {
    uint32_t stream;
    int64_t hour;
    if (!find_hour(&engine->writer, HOUR_DIRTY, hour_limit, &stream, &hour))
        return false;
    finish_hour(&engine->writer, stream, hour);
    return true;
}

/* Deletes some hours before the limit. */
static bool delete_some(struct engine *engine, int64_t hour_limit) {
    uint32_t stream;
    int64_t hour;
    for (int i = 0; i < 64; i++) {
        if (!find_hour(&engine->writer, HOUR_OLDER, hour_limit, &stream, &hour))
            return false;
        finish_delete(&engine->writer, stream, hour);
        engine->has_deleted = true;
    }
    return true;
}

/* Whole hours are kept, so one look an hour is enough. */
static sonde_err expire(struct engine *engine, int64_t now_unix_s, struct sonde_diag *diag) {
    if (engine->expired_unix_s / HOUR_S == now_unix_s / HOUR_S)
        return SONDE_OK;
    engine->expired_stream = 0;
    sonde_err err = repeat(engine, engine_expire, now_unix_s, diag);
    if (!err && engine_expires_all(engine, now_unix_s))
        engine->expired_all_unix_s = now_unix_s;
    if (!err)
        engine->expired_unix_s = now_unix_s;
    return err;
}

static int64_t used_bytes(struct db *db) {
    return (db_number(db, 0, PAGE_COUNT, "") - db_number(db, 0, PAGE_FREE, "")) * DB_PAGE;
}

/* Returns the size limit of the pages, which leaves room for the log and for windows until the next
 * call. */
static int64_t budget(const struct engine *engine) {
    int64_t max = (int64_t)engine->limits.max_bytes;
    return max - (max / 8 > LOG_BYTES ? LOG_BYTES : max / 8);
}

/* Deletes the oldest hour of all streams if there is too much; never the current one. */
static bool shrink_once(struct engine *engine, int64_t hour_limit) {
    struct db *db = &engine->writer;
    int64_t oldest = db_number(db, INT64_MAX, HOUR_OLDEST, "");
    if (used_bytes(db) <= budget(engine) || oldest >= hour_limit)
        return false;
    while (delete_some(engine, oldest + 1) && !db->failure)
        continue;
    return true;
}

static bool clean(struct engine *engine, int64_t now_unix_s) {
    engine_clean(&engine->writer);
    numbers_clear(&engine->numbers);
    engine->has_deleted = false;
    engine->cleaned_unix_s = now_unix_s;
    return false;
}

static bool expire_deliveries(struct engine *engine, int64_t limit_unix_s) {
    db_run(&engine->writer, DELIVERY_EXPIRE, "i", limit_unix_s);
    return false;
}

static bool expire_changes(struct engine *engine, int64_t now_unix_s) {
    engine_expire_changes(engine, now_unix_s);
    return false;
}

/* Free pages are used again; a file that is mostly free becomes smaller. */
static bool vacuum(struct engine *engine, int64_t unused) {
    struct db *db = &engine->writer;
    int64_t count = db_number(db, 0, PAGE_COUNT, ""), free_count = db_number(db, 0, PAGE_FREE, "");
    bool is_over = engine->limits.max_bytes && count * DB_PAGE > budget(engine);
    if (free_count < 64 || !(is_over || free_count > count / 2))
        return false;
    db_run(db, VACUUM_STEP, "");
    return true;
}

sonde_err engine_maintain(struct store *store, int64_t now_unix_s, struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    struct sonde_diag failure = {0};
    int64_t current = (now_unix_s - LATE_S) / HOUR_S, oldest = 0;
    uint32_t longest_s = store_longest_keep_s(&engine->limits);
    sonde_err err = repeat(engine, split_some, split_limit(engine, now_unix_s), &failure);
    if (!err)
        err = repeat(engine, finish_one, current, &failure);
    if (longest_s)
        oldest = (now_unix_s - (int64_t)longest_s) / HOUR_S;
    if (!err && oldest > 0)
        err = repeat(engine, delete_some, oldest, &failure);
    if (!err && engine->limits.keep_count)
        err = expire(engine, now_unix_s, &failure);
    if (!err && engine->limits.max_bytes)
        err = repeat(engine, shrink_once, current, &failure);
    if (!err && oldest > 0)
        err = repeat(engine, expire_deliveries, oldest * HOUR_S - DELIVERIES_S, &failure);
    if (!err)
        err = repeat(engine, expire_changes, now_unix_s, &failure);
    if (!err && engine->has_deleted && now_unix_s - engine->cleaned_unix_s >= CLEAN_S)
        err = repeat(engine, clean, now_unix_s, &failure);
    if (!err)
        err = repeat(engine, vacuum, 0, &failure);
    if (err && diag)
        *diag = failure;
    return err ? engine_note(engine, err, &failure) : SONDE_OK;
}
