/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists services, labels and their values, and sizes, for any event. */
#include "service/store/clickhouse/fleet.h"
#include "service/store/clickhouse/wire/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void put_filter(struct sonde_buf *sql, const struct store_query *query) {
    sonde_buf_puts(sql, " WHERE ");
    sql_times(sql, query->from_unix_s, query->until_unix_s);
    if (query->service && query->service[0]) {
        sonde_buf_puts(sql, " AND service = ");
        sql_text(sql, sonde_slice_of(query->service));
    }
    if (selector_root(query->selector)) {
        sonde_buf_puts(sql, " AND ");
        sql_condition(sql, query->selector, SQL_WINDOW);
    }
}

static void read_service(struct row_binary *rows, struct sonde_arena *arena,
                         struct sonde_buf *services) {
    struct store_service service = {.name = row_binary_text(rows, arena)};
    service.event_count = row_binary_count(rows, 1);
    const char **events = sonde_arena_alloc(arena, (service.event_count + 1) * sizeof *events);
    rows->failed = rows->failed || !events;
    for (size_t i = 0; i < service.event_count && events; i++)
        events[i] = row_binary_text(rows, arena);
    service.events = events;
    service.hosts = (uint32_t)row_binary_u64(rows);
    service.processes = (uint32_t)row_binary_u64(rows);
    service.first_unix_s = row_binary_u32(rows);
    service.last_unix_s = row_binary_i64(rows);
    service.on_cpu_ns = row_binary_i64(rows);
    sonde_buf_append(services, &service, sizeof service);
}

sonde_err fleet_services(struct store *store, const struct store_query *query,
                         struct sonde_arena *arena, struct store_service **services, size_t *count,
                         struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0}, list = {0};
    sonde_buf_puts(&sql, "SELECT service, arraySort(groupUniqArray(event)), uniqExact(host), "
                         "uniqExact(" SQL_PROCESS "), min(ts), "
                         "toInt64(max(toUInt32(ts) + window_s)), "
                         "sumIf(arraySum(s.value), event = 'on-cpu') FROM samples");
    put_filter(&sql, query);
    sonde_buf_puts(&sql, " GROUP BY service ORDER BY service");
    sonde_err err = fleet_query((struct fleet *)store, &sql, query->stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows))
        read_service(&rows, arena, &list);
    err = err ? err : fleet_check(&rows, diag);
    *count = list.len / sizeof **services;
    *services =
        (struct store_service *)sonde_arena_dup(arena, list.data ? list.data : "", list.len);
    if (!err && (!*services || list.failed))
        err = SONDE_OUT_OF_MEMORY;
    sonde_buf_finish(&sql);
    fleet_answer_finish((struct fleet *)store, &answer);
    sonde_buf_finish(&list);
    return err;
}

/* The texts that are asked for, as a column "text". */
static void put_texts(struct sonde_buf *sql, const struct store_query *query, const char *name) {
    if (!name) {
        sonde_buf_puts(sql, "SELECT DISTINCT arrayJoin(arrayConcat(['service', 'event', 'host', "
                            "'instance', 'pid', 'thread'], label_names)) AS text FROM samples");
        put_filter(sql, query);
        return;
    }
    if (strcmp(name, "thread") != 0) {
        sonde_buf_puts(sql, "SELECT DISTINCT ");
        sql_label(sql, name, SQL_WINDOW);
        sonde_buf_puts(sql, " AS text FROM samples");
        put_filter(sql, query);
        return;
    }
    bool has_thread = selector_names(query->selector, "thread");
    sonde_buf_puts(sql, "SELECT DISTINCT ");
    sql_label(sql, name, SQL_ROW);
    sonde_buf_puts(sql, " AS text FROM samples ARRAY JOIN s.thread AS thread");
    put_filter(sql, query);
    if (has_thread) {
        sonde_buf_puts(sql, " AND ");
        sql_condition(sql, query->selector, SQL_ROW);
    }
}

sonde_err fleet_labels(struct store *store, const struct store_query *query, const char *name,
                       size_t limit, struct sonde_arena *arena, const char ***texts, size_t *count,
                       bool *is_cut, struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0};
    sonde_buf_puts(&sql, "SELECT text FROM (");
    put_texts(&sql, query, name);
    sonde_buf_printf(&sql, ") WHERE text != '' ORDER BY text LIMIT %zu", limit + 1);
    sonde_err err = fleet_query((struct fleet *)store, &sql, query->stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    *count = 0;
    *texts = sonde_arena_alloc(arena, (limit + 1) * sizeof **texts);
    if (!err && !*texts)
        err = SONDE_OUT_OF_MEMORY;
    while (!err && row_binary_more(&rows) && *count < limit)
        (*texts)[(*count)++] = row_binary_text(&rows, arena);
    *is_cut = !err && row_binary_more(&rows);
    err = err ? err : fleet_check(&rows, diag);
    sonde_buf_finish(&sql);
    fleet_answer_finish((struct fleet *)store, &answer);
    return err;
}

static sonde_err read_samples(struct fleet *fleet, const struct store_stop *stop,
                              struct store_info *info, struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0};
    sonde_buf_puts(&sql,
                   "SELECT toInt64(min(toUInt32(ts))), toInt64(max(toUInt32(ts) + window_s)), "
                   "count(), sum(samples), sum(dropped), uniqExact(host) FROM samples");
    sonde_err err = fleet_query(fleet, &sql, stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    if (!err && row_binary_more(&rows)) {
        info->first_unix_s = row_binary_i64(&rows);
        info->last_unix_s = row_binary_i64(&rows);
        info->windows = row_binary_u64(&rows);
        info->samples = row_binary_u64(&rows);
        info->dropped = row_binary_u64(&rows);
        info->hosts = (uint32_t)row_binary_u64(&rows);
    }
    err = err ? err : fleet_check(&rows, diag);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    return err;
}

/* One number from one server, or (FLEET_NO_SHARD) from whichever answers; added to *number. */
static sonde_err add_number(struct fleet *fleet, size_t server, const struct sonde_buf *sql,
                            const struct store_stop *stop, uint64_t *number,
                            struct sonde_diag *diag) {
    struct sonde_buf answer = {0};
    sonde_err err = sql->failed ? SONDE_OUT_OF_MEMORY
                    : server == FLEET_NO_SHARD
                        ? fleet_query(fleet, sql, stop, &answer, diag)
                        : fleet_run(fleet, server, sql->data, stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    if (!err)
        *number += row_binary_u64(&rows);
    err = err ? err : fleet_check(&rows, diag);
    fleet_answer_finish(fleet, &answer);
    return err;
}

sonde_err fleet_size(struct fleet *fleet, const struct store_stop *stop, uint64_t *bytes,
                     struct sonde_diag *diag) {
    struct sonde_buf sql = {0};
    sonde_err err = SONDE_OK;
    sonde_buf_puts(&sql,
                   "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = ");
    sql_text(&sql, sonde_slice_of(fleet->settings.database));
    sonde_buf_puts(&sql, " FORMAT RowBinary");
    *bytes = 0;
    for (uint32_t shard = 0; shard < fleet->shard_count && !err; shard++)
        err = add_number(fleet, fleet->shards[shard].server, &sql, stop, bytes, diag);
    sonde_buf_finish(&sql);
    return err;
}

sonde_err fleet_info(struct store *store, const struct store_stop *stop, struct store_info *info,
                     struct sonde_diag *diag) {
    struct fleet *fleet = (struct fleet *)store;
    struct sonde_buf stacks = {0}, frames = {0};
    struct sonde_diag reason = {0};
    *info = (struct store_info){.engine = "clickhouse",
                                .size_limit_bytes = fleet->limits.max_bytes,
                                .keep_s = fleet->limits.keep_s};
    snprintf(info->place, sizeof info->place, "%s", fleet->place);
    sonde_buf_puts(&stacks, "SELECT count() FROM stacks");
    sonde_buf_puts(&frames, "SELECT count() FROM frames");
    sonde_err err = read_samples(fleet, stop, info, &reason);
    if (!err)
        err = add_number(fleet, FLEET_NO_SHARD, &stacks, stop, &info->stacks, &reason);
    if (!err)
        err = add_number(fleet, FLEET_NO_SHARD, &frames, stop, &info->frames, &reason);
    if (!err)
        err = fleet_size(fleet, stop, &info->size_bytes, &reason);
    lock_take(&fleet->lock);
    snprintf(info->trouble, sizeof info->trouble, "%s",
             err ? sonde_diag_text(&reason, err) : fleet->trouble);
    lock_drop(&fleet->lock);
    sonde_buf_finish(&stacks);
    sonde_buf_finish(&frames);
    return err == SONDE_OUT_OF_MEMORY ? err : SONDE_OK;
}
