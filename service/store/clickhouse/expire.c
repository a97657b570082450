/* SPDX-License-Identifier: Apache-2.0
 *
 * Deletes windows whose days are over where that depends on their labels (struct store_keep):
 *
 *     1. ask which days have such windows
 *     2. drop these days' rows of rollup_windows, so that queries read the windows themselves
 *     3. ALTER TABLE ... DELETE, which the server runs in the background
 *     4. when the server is done, maintain.c makes these rollups again
 *
 * If it ends after 2, the windows are still there, and the next time finds them again. */
#include "service/store/clickhouse/fleet.h"
#include "service/store/clickhouse/wire/sql.h"

#define DAY_S  86400
#define HOUR_S 3600

/* Windows of the rule's labels, and not of those of a rule before it. The last rule is that of all
 * other windows. */
static void put_rule(struct sonde_buf *sql, const struct store_limits *limits, size_t rule) {
    for (size_t i = 0; i < rule; i++) {
        sonde_buf_puts(sql, "NOT ");
        sql_condition(sql, limits->keeps[i].selector, SQL_WINDOW);
        sonde_buf_puts(sql, " AND ");
    }
    sql_condition(sql, rule < limits->keep_count ? limits->keeps[rule].selector : NULL, SQL_WINDOW);
}

static void put_condition(struct sonde_buf *sql, const struct store_limits *limits,
                          int64_t now_unix_s) {
    sonde_buf_puts(sql, "(0");
    for (size_t i = 0; i <= limits->keep_count; i++) {
        uint32_t keep_s = i < limits->keep_count ? limits->keeps[i].keep_s : limits->keep_s;
        int64_t day = (now_unix_s - (int64_t)keep_s) / DAY_S;
        if (!keep_s || day <= 0)
            continue;
        sonde_buf_puts(sql, " OR (");
        sql_times(sql, 0, day * DAY_S);
        sonde_buf_puts(sql, " AND ");
        put_rule(sql, limits, i);
        sonde_buf_putc(sql, ')');
    }
    sonde_buf_putc(sql, ')');
}

sonde_err fleet_is_expiring(struct fleet *fleet, uint32_t shard, bool *is_expiring,
                            struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0}, table = {0};
    sonde_buf_printf(&table, "samples%s", fleet_local(fleet));
    sonde_buf_puts(&sql, "SELECT count() FROM system.mutations WHERE NOT is_done AND database = ");
    sql_text(&sql, sonde_slice_of(fleet->settings.database));
    sonde_buf_puts(&sql, " AND table = ");
    sql_text(&sql, sonde_buf_slice(&table));
    sonde_buf_puts(&sql, " FORMAT RowBinary");
    sonde_err err =
        table.failed ? SONDE_OUT_OF_MEMORY : fleet_run_built(fleet, shard, &sql, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    *is_expiring = !err && row_binary_more(&rows) && row_binary_u64(&rows) > 0;
    err = err ? err : fleet_check(&rows, diag);
    fleet_answer_finish(fleet, &answer);
    sonde_buf_finish(&table);
    return err;
}

/* Before the rollups are made again. */
static sonde_err drop_rollups(struct fleet *fleet, uint32_t shard, const struct sonde_buf *days,
                              struct sonde_diag *diag) {
    struct row_binary rows = row_binary_of(days);
    sonde_err err = SONDE_OK;
    while (!err && row_binary_more(&rows)) {
        struct sonde_buf sql = {0};
        long long day = (long long)row_binary_i64(&rows);
        sonde_buf_printf(&sql, "ALTER TABLE rollup_windows%s DROP PARTITION ID '%lld'",
                         fleet_local(fleet), day);
        err = rows.failed ? SONDE_OK : fleet_run_built(fleet, shard, &sql, NULL, diag);
    }
    return err ? err : fleet_check(&rows, diag);
}

static sonde_err expire_shard(struct fleet *fleet, uint32_t shard, const struct sonde_buf *over,
                              struct sonde_diag *diag) {
    struct sonde_buf ask = {0}, delete = {0}, days = {0};
    const char *local = fleet_local(fleet);
    sonde_buf_printf(&ask,
                     "SELECT DISTINCT toInt64(intDiv(toUInt32(ts), 86400)) FROM samples%s WHERE "
                     "%s FORMAT RowBinary",
                     local, over->data);
    sonde_buf_printf(&delete, "ALTER TABLE samples%s DELETE WHERE %s", local, over->data);
    sonde_err err = fleet_run_built(fleet, shard, &ask, &days, diag);
    if (!err)
        err = drop_rollups(fleet, shard, &days, diag);
    if (!err && days.len)
        err = fleet_run_built(fleet, shard, &delete, NULL, diag);
    sonde_buf_finish(&delete);
    fleet_answer_finish(fleet, &days);
    return err;
}

sonde_err fleet_expire(struct fleet *fleet, int64_t now_unix_s, struct sonde_diag *diag) {
    struct sonde_buf over = {0};
    bool is_expiring = false;
    sonde_err err = SONDE_OK;
    if (fleet->limits.keep_count == 0 || fleet->expired_unix_s / HOUR_S == now_unix_s / HOUR_S)
        return SONDE_OK;
    for (uint32_t shard = 0; shard < fleet->shard_count && !err && !is_expiring; shard++)
        err = fleet_is_expiring(fleet, shard, &is_expiring, diag);
    if (err || is_expiring)
        return err;
    put_condition(&over, &fleet->limits, now_unix_s);
    if (over.failed)
        err = SONDE_OUT_OF_MEMORY;
    for (uint32_t shard = 0; shard < fleet->shard_count && !err; shard++)
        err = expire_shard(fleet, shard, &over, diag);
    sonde_buf_finish(&over);
    if (!err)
        fleet->expired_unix_s = now_unix_s;
    return err;
}
