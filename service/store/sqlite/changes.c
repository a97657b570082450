/* SPDX-License-Identifier: Apache-2.0
 *
 * What a watcher found. The table is younger than the format: an older Sonde ignores it, and a file
 * on a disk that cannot be written may lack it. */
#include "service/store/sqlite/engine.h"

#include <string.h>

sonde_err engine_put_change(struct store *store, const struct store_change *change,
                            struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    struct db *db = &engine->writer;
    sonde_err err;
    if (engine->is_read_only)
        return sonde_fail(diag, SONDE_UNAVAILABLE, "the history cannot be written");
    lock_take(&engine->write_lock);
    err = engine_check_file(engine, diag);
    if (!err) {
        db_begin(db);
        db_run(db, CHANGE_ADD, "itb", change->time_unix_s, change->service, change->body);
        err = db_end(db, diag);
    }
    lock_drop(&engine->write_lock);
    return err;
}

static bool add_row(struct sonde_arena *arena, sqlite3_stmt *row, struct store_change *change) {
    struct sonde_slice body = db_blob(row, 2);
    const char *service = db_text(row, 1);
    change->time_unix_s = sqlite3_column_int64(row, 0);
    change->service = sonde_arena_dup(arena, service, strlen(service));
    change->body.data = sonde_arena_dup(arena, body.data ? body.data : "", body.len);
    change->body.len = body.len;
    return change->service && change->body.data;
}

sonde_err engine_changes(struct store *store, const struct store_change_query *query,
                         struct sonde_arena *arena, struct store_change **changes, size_t *count,
                         struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    struct db *db = engine_read(engine);
    struct store_change *rows = sonde_arena_alloc(arena, (query->limit + 1) * sizeof *rows);
    *count = 0;
    *changes = rows;
    if (!rows)
        db_out_of_memory(db);
    if (!db->failure && db_number(db, 0, CHANGE_TABLE, "")) {
        sqlite3_stmt *row = db_start(db, CHANGE_LIST, "iiti", query->from_unix_s,
                                     query->until_unix_s, query->service, (int64_t)query->limit);
        while (db_row(db, row)) {
            if (!add_row(arena, row, &rows[*count]))
                db_out_of_memory(db);
            else
                ++*count;
        }
    }
    return engine_read_end(engine, db, diag);
}

void engine_expire_changes(struct engine *engine, int64_t now_unix_s) {
    uint32_t longest_s = store_longest_keep_s(&engine->limits);
    db_run(&engine->writer, CHANGE_EXPIRE, "ii",
           longest_s ? now_unix_s - (int64_t)longest_s : INT64_MIN, (int64_t)STORE_MAX_CHANGES);
}
