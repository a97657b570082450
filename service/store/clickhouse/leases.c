/* SPDX-License-Identifier: Apache-2.0
 *
 * Leases are rows of the first shard. Each renewal adds one; the newest counts, and merges drop the
 * others. Times are the server's. A release is a renewal for no time, dated a second later, so that
 * it is newer than a renewal in the same second.
 *
 * Two replicas may differ for a moment. So may two controllers then, about who collects from a
 * host; that only costs them a call, because windows are stored once. */
#include "service/store/clickhouse/fleet.h"
#include "service/store/clickhouse/wire/row_binary.h"
#include "service/store/clickhouse/wire/sql.h"

#include <string.h>

#define SHARD 0

/* Does not wait for inserts, and so does not change which replica they use. */
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

static sonde_err list(struct fleet *fleet, const struct store_lease_request *wanted,
                      struct sonde_arena *arena, struct store_lease **live, size_t *count,
                      struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0};
    sonde_buf_printf(&sql,
                     "SELECT holder, toInt64(max(renewed)) + argMax(duration_s, renewed) - "
                     "toInt64(now()) AS left_s FROM leases%s WHERE lease_group = ",
                     fleet_local(fleet));
    sql_text(&sql, sonde_slice_of(wanted->group));
    sonde_buf_puts(&sql, " GROUP BY holder HAVING left_s > 0 AND argMax(duration_s, renewed) > 0 "
                         "ORDER BY holder LIMIT 1000 FORMAT RowBinary");
    sonde_err err = run(fleet, &sql, wanted->stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    struct sonde_buf found = {0};
    while (!err && row_binary_more(&rows)) {
        struct store_lease lease = {.holder = row_binary_text(&rows, arena)};
        lease.left_s = (uint32_t)row_binary_u64(&rows);
        sonde_buf_append(&found, &lease, sizeof lease);
    }
    err = err ? err : fleet_check(&rows, diag);
    *count = found.len / sizeof(struct store_lease);
    *live = (void *)sonde_arena_dup(arena, found.data ? found.data : "", found.len);
    if (!err && (found.failed || !*live))
        err = SONDE_OUT_OF_MEMORY;
    sonde_buf_finish(&found);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    return err;
}

static sonde_err renew(struct fleet *fleet, const struct store_lease_request *wanted,
                       struct sonde_diag *diag) {
    struct sonde_buf sql = {0};
    sonde_buf_printf(&sql,
                     "INSERT INTO leases%s (lease_group, holder, renewed, duration_s) SELECT ",
                     fleet_local(fleet));
    sql_text(&sql, sonde_slice_of(wanted->group));
    sonde_buf_puts(&sql, ", ");
    sql_text(&sql, sonde_slice_of(wanted->holder));
    sonde_buf_printf(&sql, ", toUInt32(now()) + %u, toUInt32(%u)", wanted->duration_s ? 0 : 1,
                     wanted->duration_s);
    sonde_err err = run(fleet, &sql, wanted->stop, NULL, diag);
    sonde_buf_finish(&sql);
    return err;
}

static bool is_among(const struct store_lease *live, size_t count, const char *holder) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(live[i].holder, holder) == 0)
            return true;
    return false;
}

sonde_err fleet_lease(struct store *store, const struct store_lease_request *wanted,
                      struct sonde_arena *arena, struct store_lease **live, size_t *count,
                      struct sonde_diag *diag) {
    struct fleet *fleet = (struct fleet *)store;
    sonde_err err = list(fleet, wanted, arena, live, count, diag);
    if (!err && wanted->duration_s && *count >= STORE_MAX_HOLDERS &&
        !is_among(*live, *count, wanted->holder))
        return store_lease_refuse(wanted, diag);
    if (!err)
        err = renew(fleet, wanted, diag);
    return err ? err : list(fleet, wanted, arena, live, count, diag);
}
