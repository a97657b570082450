/* SPDX-License-Identifier: Apache-2.0
 *
 * The host view. */
#include "service/store/clickhouse/completeness.h"
#include "service/store/clickhouse/wire/sql.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1000000000

static void put_statement(struct sonde_buf *sql, const struct store_query *query) {
    sonde_buf_puts(sql, "SELECT host, process, thread, sum(cpu_ns), count() FROM host_totals ARRAY "
                        "JOIN c.process AS process, c.thread AS thread, c.cpu_ns AS cpu_ns "
                        "PREWHERE ");
    sql_times(sql, query->from_unix_s, query->until_unix_s);
    sonde_buf_puts(sql, " WHERE ");
    sql_condition(sql, query->selector, SQL_TOTAL);
    sonde_buf_puts(sql, " GROUP BY host, process, thread");
}

/* Intervals of the host. */
static sonde_err count_intervals(struct fleet *fleet, const struct store_query *query,
                                 const char *host, struct store_merge *merge,
                                 struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0};
    struct spans spans = {0};
    sonde_buf_puts(&sql, "SELECT ts, max(window_s), count(), sum(window_s) FROM host_totals WHERE "
                         "host = ");
    sql_text(&sql, sonde_slice_of(host));
    sonde_buf_puts(&sql, " AND ");
    sql_times(&sql, query->from_unix_s, query->until_unix_s);
    sonde_buf_puts(&sql, " GROUP BY ts ORDER BY ts");
    sonde_err err = fleet_query(fleet, &sql, query->stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows)) {
        int64_t begin = row_binary_u32(&rows);
        spans_add(&spans, begin, begin + row_binary_u16(&rows));
        merge->windows += row_binary_u64(&rows);
        merge->covered_ns += row_binary_i64(&rows) * NS_PER_S;
    }
    err = err ? err : fleet_check(&rows, diag);
    sonde_err lost = spans_take(&spans, merge);
    err = err ? err : lost;
    int64_t length_s = merge->last_unix_s - merge->first_unix_s;
    double mean_ns = merge->windows ? (double)merge->covered_ns / (double)merge->windows : 0;
    uint64_t fits = mean_ns > 0 ? (uint64_t)((double)length_s * NS_PER_S / mean_ns + 0.5) : 0;
    merge->windows_expected = fits > merge->windows ? fits : merge->windows;
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    return err;
}

struct collect {
    struct sonde_arena *arena;
    struct sonde_buf rows; /* of struct store_total_row */
    const char *host;
    bool has_several;
    uint64_t rows_read;
};

static void read_row(struct row_binary *rows, struct collect *collect) {
    struct sonde_slice host = row_binary_slice(rows);
    struct store_total_row row;
    if (!collect->host)
        collect->host = sonde_arena_dup(collect->arena, host.data, host.len);
    row.process = row_binary_text(rows, collect->arena);
    row.thread = row_binary_text(rows, collect->arena);
    row.cpu_ns = row_binary_i64(rows);
    collect->rows_read += row_binary_u64(rows);
    rows->failed = rows->failed || !collect->host;
    collect->has_several =
        collect->has_several || (!rows->failed && !sonde_slice_equals(host, collect->host));
    sonde_buf_append(&collect->rows, &row, sizeof row);
}

sonde_err fleet_totals(struct store *store, const struct store_query *query,
                       struct sonde_arena *arena, struct store_total_row **result,
                       size_t *row_count, struct store_merge *merge, struct sonde_diag *diag) {
    struct fleet *fleet = (struct fleet *)store;
    struct sonde_buf sql = {0}, answer = {0};
    struct collect collect = {.arena = arena};
    *merge = (struct store_merge){0};
    put_statement(&sql, query);
    sonde_err err = fleet_query(fleet, &sql, query->stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows) && !collect.has_several)
        read_row(&rows, &collect);
    err = err ? err : fleet_check(&rows, diag);
    if (!err && collect.has_several)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "several hosts match, for example \"%s\": name one, host = 'NAME'",
                         collect.host);
    *row_count = collect.rows.len / sizeof **result;
    *result = (struct store_total_row *)sonde_arena_dup(
        arena, collect.rows.data ? collect.rows.data : "", collect.rows.len);
    if (!err && (!*result || collect.rows.failed))
        err = SONDE_OUT_OF_MEMORY;
    merge->rows_read = collect.rows_read;
    if (!err && collect.host)
        err = count_intervals(fleet, query, collect.host, merge, diag);
    if (fleet_is_cluster(fleet))
        merge->shards_asked = merge->shards_answered = fleet->shard_count;
    merge->statement = err ? NULL : sonde_arena_dup(arena, sql.data, sql.len);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    sonde_buf_finish(&collect.rows);
    return err;
}

/* ---- When hosts recorded ---- */

/* Intervals by host: the begins and the ends of the spans between pauses. A number holds an
 * interval's begin and length, so that one array can be sorted. */
static void put_hosts(struct sonde_buf *sql, const struct store_query *query) {
    sonde_buf_printf(
        sql,
        "SELECT host, arrayConcat([begins[1]], arrayFilter((b, e) -> b >= e + %d, "
        "arrayPopFront(begins), arrayPopBack(ends))), arrayConcat(arrayFilter((e, b) -> b >= e + "
        "%d, arrayPopBack(ends), arrayPopFront(begins)), [ends[length(ends)]]) FROM (SELECT host, "
        "arrayMap(x -> intDiv(x, 65536), sorted) AS begins, arrayMap(x -> toUInt64(intDiv(x, "
        "65536) + x %% 65536), sorted) AS ends FROM (SELECT host, "
        "arraySort(groupArray(toUInt64(toUInt32(ts)) * 65536 + window_s)) AS sorted FROM "
        "host_totals WHERE ",
        STORE_HOST_PAUSE_S, STORE_HOST_PAUSE_S);
    sql_times(sql, query->from_unix_s, query->until_unix_s);
    sonde_buf_puts(sql, " GROUP BY host)) ORDER BY host");
}

static void read_host(struct row_binary *rows, struct sonde_arena *arena, struct sonde_buf *list) {
    struct store_host host = {.name = row_binary_text(rows, arena)};
    host.span_count = row_binary_count(rows, 8);
    struct store_span *spans = sonde_arena_alloc(arena, (host.span_count + 1) * sizeof *spans);
    rows->failed = rows->failed || !spans;
    for (size_t i = 0; i < host.span_count && !rows->failed; i++)
        spans[i].begin_unix_s = row_binary_i64(rows);
    rows->failed = rows->failed || row_binary_count(rows, 8) != host.span_count;
    for (size_t i = 0; i < host.span_count && !rows->failed; i++)
        spans[i].end_unix_s = row_binary_i64(rows);
    host.spans = spans;
    sonde_buf_append(list, &host, sizeof host);
}

sonde_err fleet_hosts(struct store *store, const struct store_query *query,
                      struct sonde_arena *arena, struct store_host **hosts, size_t *count,
                      struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0}, list = {0};
    put_hosts(&sql, query);
    sonde_err err = fleet_query((struct fleet *)store, &sql, query->stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows))
        read_host(&rows, arena, &list);
    err = err ? err : fleet_check(&rows, diag);
    *count = list.len / sizeof **hosts;
    *hosts = (struct store_host *)sonde_arena_dup(arena, list.data ? list.data : "", list.len);
    if (!err && (!*hosts || list.failed))
        err = SONDE_OUT_OF_MEMORY;
    sonde_buf_finish(&sql);
    fleet_answer_finish((struct fleet *)store, &answer);
    sonde_buf_finish(&list);
    return err;
}
