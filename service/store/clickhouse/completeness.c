/* SPDX-License-Identifier: Apache-2.0
 *
 * How complete an answer is. Two sums over the windows: by begin, for the union of their intervals,
 * and by process, for the windows that would fit between its first and its last one. */
#include "service/store/clickhouse/completeness.h"

#include "api/profile/event.h"
#include "service/store/clickhouse/rows.h"
#include "service/store/clickhouse/wire/sql.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1000000000

struct span {
    int64_t begin, end;
};

/* Most intervals extend the last one. */
void spans_add(struct spans *spans, int64_t begin, int64_t end) {
    struct span span = {begin, end}, *list = (struct span *)(void *)spans->list.data;
    size_t count = spans->list.len / sizeof span;
    struct span *last = count ? &list[count - 1] : NULL;
    spans->last = begin > spans->last ? begin : spans->last;
    if (last && begin >= last->begin && begin <= last->end)
        last->end = end > last->end ? end : last->end;
    else
        sonde_buf_append(&spans->list, &span, sizeof span);
}

static int by_start(const void *left, const void *right) {
    const struct span *a = left, *b = right;
    return (a->begin > b->begin) - (a->begin < b->begin);
}

sonde_err spans_take(struct spans *spans, struct store_merge *merge) {
    struct span *list = (struct span *)(void *)spans->list.data;
    size_t count = spans->list.len / sizeof *list;
    int64_t end = INT64_MIN, length_s = 0;
    bool failed = spans->list.failed;
    if (count)
        qsort(list, count, sizeof *list, by_start);
    for (size_t i = 0; i < count; i++) {
        int64_t begin = list[i].begin > end ? list[i].begin : end;
        length_s += list[i].end > begin ? list[i].end - begin : 0;
        end = list[i].end > end ? list[i].end : end;
    }
    merge->wall_ns = length_s * NS_PER_S;
    merge->first_unix_s = count ? list[0].begin : 0;
    merge->last_unix_s = count ? end : 0;
    sonde_buf_finish(&spans->list);
    return failed ? SONDE_OUT_OF_MEMORY : SONDE_OK;
}

static void put_filter(struct sonde_buf *sql, const struct store_query *query,
                       const struct sonde_buf *range) {
    if (range)
        sonde_buf_printf(sql, " WHERE %s", range->data);
    else
        sql_where(sql, query);
}

/* Of a state, the windows that count. */
static void put_windows(struct sonde_buf *sql, const struct store_query *query,
                        const struct sonde_buf *range, const char *step) {
    if (sonde_event_is_state(query->event)) {
        sonde_buf_puts(sql, "SELECT toUInt32(last) AS at, max(length_s), count(), sum(length_s), "
                            "sum(count_of), sum(lost_of), any(period_of) FROM");
        rows_put_states(sql, query, step);
        sonde_buf_puts(sql, " GROUP BY at ORDER BY at");
        return;
    }
    sonde_buf_puts(sql, "SELECT ts, max(window_s), count(), sum(window_s), sum(samples), "
                        "sum(dropped), any(period_ns) FROM samples");
    put_filter(sql, query, range);
    sonde_buf_puts(sql, " GROUP BY ts ORDER BY ts");
}

static sonde_err by_begin(struct fleet *fleet, const struct store_query *query,
                          const struct sonde_buf *range, const char *step, struct spans *spans,
                          struct store_merge *merge, struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0};
    put_windows(&sql, query, range, step);
    sonde_err err = fleet_query(fleet, &sql, query->stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows)) {
        int64_t begin = row_binary_u32(&rows);
        spans_add(spans, begin, begin + row_binary_u16(&rows));
        merge->windows += row_binary_u64(&rows);
        merge->covered_ns += row_binary_i64(&rows) * NS_PER_S;
        merge->samples += row_binary_u64(&rows);
        merge->dropped += row_binary_u64(&rows);
        uint64_t period_ns = row_binary_u64(&rows);
        if (begin >= spans->last)
            merge->period_ns = period_ns;
    }
    err = err ? err : fleet_check(&rows, diag);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    return err;
}

static sonde_err by_process(struct fleet *fleet, const struct store_query *query,
                            const struct sonde_buf *range, struct store_merge *merge,
                            struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0};
    sonde_buf_puts(&sql, "SELECT " SQL_EXPECTED ", " SQL_COUNTED ", " SQL_SAMPLED
                         " FROM (SELECT " SQL_OF_PROCESS " FROM samples");
    put_filter(&sql, query, range);
    sonde_buf_puts(&sql, " GROUP BY cityHash64(" SQL_PROCESS "))");
    sonde_err err = fleet_query(fleet, &sql, query->stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    if (!err) {
        merge->windows_expected += row_binary_u64(&rows);
        merge->counted_ns += row_binary_i64(&rows);
        merge->sampled_ns += row_binary_i64(&rows);
    }
    err = err ? err : fleet_check(&rows, diag);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    return err;
}

/* Rollups have no weights, so this reads samples, but only those that were drawn. Values are stored
 * with their weight. */
sonde_err fleet_add_drawn(struct fleet *fleet, const struct store_query *query, const char *step,
                          struct store_merge *merge, struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0};
    if (sonde_event_is_state(query->event)) {
        sonde_buf_puts(&sql, "SELECT toUInt64(max(weight_of) * 1000), sum(arraySum(c)) FROM");
        rows_put_states(&sql, query, step);
        sonde_buf_puts(&sql, " WHERE weight_of > 1");
    } else {
        sonde_buf_puts(&sql, "SELECT toUInt64(max(weight) * 1000), sum(arraySum(s.value)) FROM "
                             "samples PREWHERE weight > 1");
        sql_where(&sql, query);
    }
    sonde_buf_puts(&sql, " GROUP BY cityHash64(" SQL_PROCESS ")");
    sonde_err err = fleet_query(fleet, &sql, query->stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows)) {
        double weight = (double)row_binary_u64(&rows) / 1000;
        double value = (double)row_binary_i64(&rows);
        if (!rows.failed && weight > 1)
            store_merge_add_drawn(merge, weight, value);
    }
    err = err ? err : fleet_check(&rows, diag);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    return err;
}

sonde_err completeness_add(struct fleet *fleet, const struct store_query *query,
                           const struct sonde_buf *range, const char *step, struct spans *spans,
                           struct store_merge *merge, struct sonde_diag *diag) {
    uint64_t before = merge->windows;
    bool is_state = sonde_event_is_state(query->event);
    /* Windows that arrive between the two statements must not look as if they were missing. */
    sonde_err err = is_state ? SONDE_OK : by_process(fleet, query, range, merge, diag);
    if (!err)
        err = by_begin(fleet, query, range, step, spans, merge, diag);
    if (is_state)
        merge->windows_expected += merge->windows - before;
    else if (merge->windows_expected < merge->windows)
        merge->windows_expected = merge->windows;
    /* A statement fails if a shard does not answer. */
    if (fleet_is_cluster(fleet))
        merge->shards_asked = merge->shards_answered = fleet->shard_count;
    return err;
}

sonde_err fleet_completeness(struct fleet *fleet, const struct store_query *query, const char *step,
                             struct store_merge *merge, struct sonde_diag *diag) {
    struct spans spans = {0};
    sonde_err err = completeness_add(fleet, query, NULL, step, &spans, merge, diag);
    sonde_err lost = spans_take(&spans, merge);
    err = err ? err : lost;
    return err ? err : fleet_add_drawn(fleet, query, step, merge, diag);
}
