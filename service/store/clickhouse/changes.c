/* SPDX-License-Identifier: Apache-2.0
 *
 * What a watcher found: rows of the first shard, a few a day. Merges drop rows that were written
 * twice, and the list leaves them out until then. Rows are deleted in the background, a day (UTC)
 * at a time. */
#include "service/store/clickhouse/fleet.h"
#include "service/store/clickhouse/wire/sql.h"

#define SHARD 0
#define DAY_S 86400

static sonde_err run(struct fleet *fleet, struct sonde_buf *sql, const struct store_stop *stop,
                     struct sonde_buf *answer, struct sonde_diag *diag) {
    sonde_err err = SONDE_UNAVAILABLE;
    if (sql->failed)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < fleet->server_count && err == SONDE_UNAVAILABLE; i++)
        if (fleet->servers[i].shard == SHARD)
            err = fleet_run(fleet, i, sql->data, stop, answer, diag);
    return err;
}

static void put_hex(struct sonde_buf *sql, struct sonde_slice bytes) {
    for (size_t i = 0; i < bytes.len; i++)
        sonde_buf_printf(sql, "%02x", (unsigned char)bytes.data[i]);
}

sonde_err fleet_put_change(struct store *store, const struct store_change *change,
                           struct sonde_diag *diag) {
    struct fleet *fleet = (struct fleet *)store;
    struct sonde_buf sql = {0};
    sonde_buf_printf(&sql,
                     "INSERT INTO changes%s (ts, service, id, body) SELECT toDateTime(%lld), ",
                     fleet_local(fleet), (long long)change->time_unix_s);
    sql_text(&sql, sonde_slice_of(change->service));
    sonde_buf_puts(&sql, ", cityHash64(packed), packed FROM (SELECT unhex('");
    put_hex(&sql, change->body);
    sonde_buf_puts(&sql, "') AS packed)");
    sonde_err err = run(fleet, &sql, fleet->limits.end, NULL, diag);
    sonde_buf_finish(&sql);
    return err;
}

static bool add_row(struct row_binary *rows, struct sonde_arena *arena,
                    struct store_change *change) {
    change->time_unix_s = row_binary_i64(rows);
    change->service = row_binary_text(rows, arena);
    struct sonde_slice body = row_binary_slice(rows);
    change->body.data = sonde_arena_dup(arena, body.data ? body.data : "", body.len);
    change->body.len = body.len;
    return change->service && change->body.data;
}

sonde_err fleet_changes(struct store *store, const struct store_change_query *query,
                        struct sonde_arena *arena, struct store_change **changes, size_t *count,
                        struct sonde_diag *diag) {
    struct fleet *fleet = (struct fleet *)store;
    struct sonde_buf sql = {0}, answer = {0};
    sonde_buf_printf(&sql, "SELECT DISTINCT toInt64(ts) AS at, service, body FROM changes%s WHERE ",
                     fleet_local(fleet));
    sql_times(&sql, query->from_unix_s, query->until_unix_s);
    if (*query->service) {
        sonde_buf_puts(&sql, " AND service = ");
        sql_text(&sql, sonde_slice_of(query->service));
    }
    sonde_buf_printf(&sql, " ORDER BY at DESC, body LIMIT %zu FORMAT RowBinary", query->limit);
    sonde_err err = run(fleet, &sql, query->stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    *count = 0;
    *changes = sonde_arena_alloc(arena, (query->limit + 1) * sizeof **changes);
    if (!err && !*changes)
        err = SONDE_OUT_OF_MEMORY;
    while (!err && *count < query->limit && row_binary_more(&rows)) {
        if (!add_row(&rows, arena, &(*changes)[*count]))
            err = SONDE_OUT_OF_MEMORY;
        ++*count;
    }
    err = err ? err : fleet_check(&rows, diag);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    return err;
}

/* Deletes only where there is something: each deletion is a task that the server remembers. */
sonde_err fleet_expire_changes(struct fleet *fleet, int64_t now_unix_s, struct sonde_diag *diag) {
    uint32_t longest_s = store_longest_keep_s(&fleet->limits);
    int64_t end_unix_s = (now_unix_s - (int64_t)longest_s) / DAY_S * DAY_S;
    struct sonde_buf ask = {0}, erase = {0}, answer = {0};
    if (!longest_s || end_unix_s <= fleet->changes_from_unix_s)
        return SONDE_OK;
    const char *local = fleet_local(fleet);
    sonde_buf_printf(&ask, "SELECT count() FROM changes%s WHERE ", local);
    sql_times(&ask, 0, end_unix_s);
    sonde_buf_puts(&ask, " FORMAT RowBinary");
    sonde_buf_printf(&erase, "ALTER TABLE changes%s DELETE WHERE ", local);
    sql_times(&erase, 0, end_unix_s);
    sonde_err err = run(fleet, &ask, fleet->limits.end, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    bool has_old = !err && row_binary_more(&rows) && row_binary_u64(&rows) > 0;
    err = err ? err : fleet_check(&rows, diag);
    if (!err && has_old)
        err = run(fleet, &erase, fleet->limits.end, NULL, diag);
    if (!err)
        fleet->changes_from_unix_s = end_unix_s;
    sonde_buf_finish(&ask);
    sonde_buf_finish(&erase);
    fleet_answer_finish(fleet, &answer);
    return err;
}
