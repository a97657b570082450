/* SPDX-License-Identifier: Apache-2.0 */
#include "service/store/clickhouse/rollup.h"

#include "api/profile/event.h"
#include "service/store/clickhouse/wire/sql.h"

#include <stdlib.h>
#include <string.h>

#define HOUR_S    3600
#define MIN_HOURS 2 /* fewer are read as samples */
#define MAX_HOURS (24 * 400)
#define NS_PER_S  1000000000

/* The full hours of a query. */
struct hours {
    int64_t first, count;
    uint64_t *windows, *rolled;
};

static bool is_possible(const struct store_query *query, struct hours *hours) {
    int64_t from = query->from_unix_s < 0 ? 0 : query->from_unix_s;
    hours->first = (from + HOUR_S - 1) / HOUR_S;
    hours->count = query->until_unix_s / HOUR_S - hours->first;
    bool is_state = query->event && sonde_event_is_state(query->event);
    return hours->count >= MIN_HOURS && !is_state && !selector_root(query->selector);
}

static void put_hours(struct sonde_buf *sql, const struct store_query *query,
                      const struct hours *hours) {
    struct store_query full = *query;
    full.from_unix_s = hours->first * HOUR_S;
    full.until_unix_s = (hours->first + hours->count) * HOUR_S;
    sonde_buf_puts(sql, " WHERE ");
    sql_range(sql, &full);
}

/* The hour's number within the query; -1 if it is not one of its. */
static int64_t number_of(const struct hours *hours, int64_t begin_unix_s) {
    int64_t number = begin_unix_s / HOUR_S - hours->first;
    return number >= 0 && number < hours->count ? number : -1;
}

static sonde_err count_windows(struct fleet *fleet, const struct store_query *query,
                               struct hours *hours, struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0};
    sonde_buf_puts(&sql, "SELECT toInt64(intDiv(toUInt32(ts), 3600)) AS h, count() FROM samples");
    put_hours(&sql, query, hours);
    sonde_buf_puts(&sql, " GROUP BY h");
    sonde_err err = fleet_query(fleet, &sql, query->stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows)) {
        int64_t number = number_of(hours, row_binary_i64(&rows) * HOUR_S);
        uint64_t count = row_binary_u64(&rows);
        if (number >= 0)
            hours->windows[number] = count;
    }
    err = err ? err : fleet_check(&rows, diag);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    return err;
}

/* A row of rollup_windows: one service in one hour of one shard. */
struct rolled {
    int64_t begin_unix_s;
    uint64_t generation, windows, expected, samples, dropped, period_ns;
    int64_t covered_s, counted_ns, sampled_ns;
    size_t count;
    const unsigned char *begins, *lengths; /* 4 and 2 bytes each */
};

static const unsigned char *skip(struct row_binary *rows, size_t count, size_t size) {
    const unsigned char *at = rows->at;
    if (!rows->failed)
        rows->at += count * size;
    return at;
}

static struct rolled read_rolled(struct row_binary *rows) {
    struct rolled rolled = {.begin_unix_s = row_binary_u32(rows)};
    rolled.generation = row_binary_u64(rows);
    rolled.windows = row_binary_u64(rows);
    rolled.expected = row_binary_u64(rows);
    rolled.samples = row_binary_u64(rows);
    rolled.dropped = row_binary_u64(rows);
    rolled.covered_s = row_binary_i64(rows);
    rolled.period_ns = row_binary_u64(rows);
    rolled.counted_ns = row_binary_i64(rows);
    rolled.sampled_ns = row_binary_i64(rows);
    rolled.count = row_binary_count(rows, 4);
    rolled.begins = skip(rows, rolled.count, 4);
    size_t lengths = row_binary_count(rows, 2);
    rolled.lengths = skip(rows, lengths, 2);
    rows->failed = rows->failed || lengths != rolled.count;
    return rolled;
}

static sonde_err ask_rolled(struct fleet *fleet, const struct store_query *query,
                            const struct hours *hours, struct sonde_buf *answer,
                            struct sonde_diag *diag) {
    struct sonde_buf sql = {0};
    sonde_buf_puts(&sql, "SELECT toUInt32(ts) AS h, max(generation), argMax(windows, generation), "
                         "argMax(expected, generation), argMax(samples, generation), "
                         "argMax(dropped, generation), argMax(covered_s, generation), "
                         "argMax(period_ns, generation), argMax(counted_ns, generation), "
                         "argMax(sampled_ns, generation), argMax(begins, generation), "
                         "argMax(lengths, generation) FROM rollup_windows");
    put_hours(&sql, query, hours);
    sonde_buf_puts(&sql, " GROUP BY h, shard, service ORDER BY h");
    sonde_err err = fleet_query(fleet, &sql, query->stop, answer, diag);
    sonde_buf_finish(&sql);
    return err;
}

static void add_rolled(const struct rolled *rolled, struct rollup *rollup,
                       struct store_merge *merge) {
    sonde_buf_printf(&rollup->generations, "%s(%lld, %llu)", rollup->is_used ? ", " : "",
                     (long long)rolled->begin_unix_s, (unsigned long long)rolled->generation);
    rollup->is_used = true;
    merge->windows += rolled->windows;
    merge->windows_expected += rolled->expected;
    merge->samples += rolled->samples;
    merge->dropped += rolled->dropped;
    merge->covered_ns += rolled->covered_s * NS_PER_S;
    merge->counted_ns += rolled->counted_ns;
    merge->sampled_ns += rolled->sampled_ns;
    merge->period_ns = rolled->period_ns;
    for (size_t i = 0; i < rolled->count; i++) {
        uint32_t begin;
        uint16_t length;
        memcpy(&begin, rolled->begins + 4 * i, sizeof begin);
        memcpy(&length, rolled->lengths + 2 * i, sizeof length);
        spans_add(&rollup->spans, begin, (int64_t)begin + length);
    }
}

static bool is_covered(const struct hours *hours, int64_t number) {
    return hours->windows[number] && hours->windows[number] == hours->rolled[number];
}

/* First the sums by hour, then the hours that are right. */
static sonde_err use(const struct sonde_buf *answer, struct hours *hours, struct rollup *rollup,
                     struct store_merge *merge, struct sonde_diag *diag) {
    struct row_binary rows = row_binary_of(answer);
    while (row_binary_more(&rows)) {
        struct rolled rolled = read_rolled(&rows);
        int64_t number = number_of(hours, rolled.begin_unix_s);
        if (!rows.failed && number >= 0)
            hours->rolled[number] += rolled.windows;
    }
    sonde_err err = fleet_check(&rows, diag);
    rows = row_binary_of(answer);
    while (!err && row_binary_more(&rows)) {
        struct rolled rolled = read_rolled(&rows);
        int64_t number = number_of(hours, rolled.begin_unix_s);
        if (number >= 0 && is_covered(hours, number))
            add_rolled(&rolled, rollup, merge);
    }
    return err;
}

static void put_rest(struct rollup *rollup, int64_t from, int64_t until) {
    if (until <= from)
        return;
    sonde_buf_puts(&rollup->rest, rollup->has_rest ? " OR (" : "(");
    sql_times(&rollup->rest, from, until);
    sonde_buf_putc(&rollup->rest, ')');
    rollup->has_rest = true;
}

/* The samples before, between and after the hours; hours without windows are not among them. */
static void find_rest(struct rollup *rollup, const struct store_query *query,
                      const struct hours *hours) {
    int64_t from = query->from_unix_s;
    sql_range(&rollup->rest, query);
    sonde_buf_puts(&rollup->rest, " AND (");
    for (int64_t i = 0; i < hours->count; i++) {
        if (hours->windows[i] && !is_covered(hours, i))
            continue;
        put_rest(rollup, from, (hours->first + i) * HOUR_S);
        from = (hours->first + i + 1) * HOUR_S;
    }
    put_rest(rollup, from, query->until_unix_s);
    sonde_buf_putc(&rollup->rest, ')');
}

sonde_err rollup_plan(struct fleet *fleet, const struct store_query *query, struct rollup *rollup,
                      struct store_merge *merge, struct sonde_diag *diag) {
    struct hours hours;
    struct sonde_buf answer = {0};
    if (!is_possible(query, &hours))
        return SONDE_OK;
    hours.count = hours.count < MAX_HOURS ? hours.count : MAX_HOURS;
    hours.windows = calloc((size_t)hours.count * 2, sizeof *hours.windows);
    if (!hours.windows)
        return SONDE_OUT_OF_MEMORY;
    hours.rolled = hours.windows + hours.count;
    sonde_err err = ask_rolled(fleet, query, &hours, &answer, diag);
    if (!err && answer.len)
        err = count_windows(fleet, query, &hours, diag);
    if (!err && answer.len)
        err = use(&answer, &hours, rollup, merge, diag);
    if (!err && rollup->is_used)
        find_rest(rollup, query, &hours);
    if (!err && (rollup->rest.failed || rollup->generations.failed))
        err = SONDE_OUT_OF_MEMORY;
    free(hours.windows);
    fleet_answer_finish(fleet, &answer);
    return err;
}

void rollup_finish(struct rollup *rollup) {
    sonde_buf_finish(&rollup->generations);
    sonde_buf_finish(&rollup->rest);
    sonde_buf_finish(&rollup->spans.list);
}
