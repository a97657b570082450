/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums by group and step. If neither the groups nor the selector name threads, the values of a
 * window are summed before anything is grouped. */
#include "service/store/clickhouse/completeness.h"

#include "api/profile/event.h"
#include "service/store/clickhouse/rows.h"
#include "service/store/clickhouse/wire/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_GROUPS 8

struct plan {
    const struct store_series_query *query;
    bool is_state, has_rows;
    enum sql_level level;
};

static struct plan plan_of(const struct store_series_query *query) {
    struct plan plan = {.query = query};
    plan.is_state = query->query.event && sonde_event_is_state(query->query.event);
    plan.has_rows =
        plan.is_state || query->stacks || selector_names(query->query.selector, "thread");
    for (size_t i = 0; i < query->group_count; i++)
        plan.has_rows = plan.has_rows || strcmp(query->group_by[i], "thread") == 0;
    plan.level = plan.is_state ? SQL_LAST : plan.has_rows ? SQL_ROW : SQL_WINDOW;
    return plan;
}

/* The table ids has the stacks that count. */
static const char *value_of(const struct plan *plan) {
    if (plan->query->stacks)
        return "sumIf(value, stack GLOBAL IN ids)";
    return plan->has_rows ? "sum(value)" : "sum(arraySum(s.value))";
}

/* An external table needs a row; 0 is the id of no stack. */
static sonde_err ask(struct fleet *fleet, const struct store_series_query *query,
                     const struct sonde_buf *sql, struct sonde_buf *answer,
                     struct sonde_diag *diag) {
    static const uint64_t none = 0;
    if (!query->stacks)
        return fleet_query(fleet, sql, query->query.stop, answer, diag);
    bool is_empty = query->stack_count == 0;
    return fleet_query_ids(fleet, sql, is_empty ? &none : query->stacks,
                           is_empty ? 1 : query->stack_count, query->query.stop, answer, diag);
}

static void put_statement(struct sonde_buf *sql, const struct plan *plan, const char *step) {
    sonde_buf_puts(sql, "SELECT ");
    for (size_t i = 0; i < plan->query->group_count; i++) {
        sql_label(sql, plan->query->group_by[i], plan->level);
        sonde_buf_printf(sql, " AS g%zu, ", i);
    }
    sonde_buf_printf(sql, "toUInt64(%s) AS at, %s FROM", plan->is_state ? "step" : step,
                     value_of(plan));
    if (plan->has_rows) {
        rows_put_source(sql, &plan->query->query, NULL, step);
    } else {
        sonde_buf_puts(sql, " samples");
        sql_where(sql, &plan->query->query);
    }
    sonde_buf_puts(sql, " GROUP BY ");
    for (size_t i = 0; i < plan->query->group_count; i++)
        sonde_buf_printf(sql, "g%zu, ", i);
    sonde_buf_puts(sql, "at ORDER BY ");
    for (size_t i = 0; i < plan->query->group_count; i++)
        sonde_buf_printf(sql, "g%zu, ", i);
    sonde_buf_puts(sql, "at");
}

/* Series and points in growing arrays; the points are cut into series at the end. */
struct collect {
    struct sonde_arena *arena;
    struct sonde_buf series, points; /* of struct store_series, store_point */
    const char *values[MAX_GROUPS];
    size_t group_count;
};

static struct store_series *last_series(struct collect *collect) {
    size_t len = collect->series.len;
    return len ? (struct store_series *)(void *)(collect->series.data + len) - 1 : NULL;
}

/* The series of the row's group: rows are in the order of groups. */
static struct store_series *series_of(struct row_binary *rows, struct collect *collect) {
    struct store_series *last = last_series(collect);
    bool is_same = last != NULL;
    for (size_t i = 0; i < collect->group_count; i++) {
        struct sonde_slice value = row_binary_slice(rows);
        if (is_same && sonde_slice_equals(value, last->values[i])) {
            collect->values[i] = last->values[i];
            continue;
        }
        is_same = false;
        collect->values[i] = sonde_arena_dup(collect->arena, value.data, value.len);
        rows->failed = rows->failed || !collect->values[i];
    }
    if (is_same || rows->failed)
        return last;
    const char **values =
        sonde_arena_alloc(collect->arena, (collect->group_count + 1) * sizeof *values);
    rows->failed = !values;
    if (!values)
        return last;
    memcpy(values, collect->values, collect->group_count * sizeof *values);
    struct store_series series = {.values = values};
    sonde_buf_append(&collect->series, &series, sizeof series);
    return last_series(collect);
}

static void read_point(struct row_binary *rows, struct collect *collect, uint32_t step_s) {
    struct store_series *series = series_of(rows, collect);
    struct store_point point;
    point.time_unix_s = row_binary_i64(rows) * step_s;
    point.value = row_binary_i64(rows);
    if (rows->failed || !series)
        return;
    series->point_count++;
    series->sum += point.value;
    sonde_buf_append(&collect->points, &point, sizeof point);
}

static int by_sum(const void *left, const void *right) {
    const struct store_series *a = left, *b = right;
    return (a->sum < b->sum) - (a->sum > b->sum);
}

static sonde_err finish(struct collect *collect, uint32_t limit,
                        struct store_series_result *result) {
    size_t count = collect->series.len / sizeof(struct store_series);
    struct store_series *series = (struct store_series *)sonde_arena_dup(
        collect->arena, collect->series.data, collect->series.len);
    struct store_point *points = (struct store_point *)sonde_arena_dup(
        collect->arena, collect->points.data, collect->points.len);
    if (!series || !points || collect->series.failed || collect->points.failed)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        series[i].points = points;
        points += series[i].point_count;
    }
    qsort(series, count, sizeof *series, by_sum);
    result->series = series;
    result->series_count = count < limit ? count : limit;
    result->omitted = count - result->series_count;
    return SONDE_OK;
}

sonde_err fleet_series(struct store *store, const struct store_series_query *query,
                       struct sonde_arena *arena, struct store_series_result *result,
                       struct sonde_diag *diag) {
    struct fleet *fleet = (struct fleet *)store;
    struct sonde_buf sql = {0}, answer = {0};
    struct collect collect = {.arena = arena, .group_count = query->group_count};
    struct plan plan = plan_of(query);
    char step[64];
    *result = (struct store_series_result){0};
    if (query->group_count > MAX_GROUPS || query->step_s == 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "a series needs a step, and at most 8 labels to group by");
    snprintf(step, sizeof step, "intDiv(toUInt32(ts), %u)", query->step_s);
    put_statement(&sql, &plan, step);
    sonde_err err = ask(fleet, query, &sql, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows))
        read_point(&rows, &collect, query->step_s);
    err = err ? err : fleet_check(&rows, diag);
    if (!err && collect.series.len)
        err = finish(&collect, query->limit, result);
    if (!err)
        err = fleet_completeness(fleet, &query->query, step, &result->completeness, diag);
    result->completeness.statement = err ? NULL : sonde_arena_dup(arena, sql.data, sql.len);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    sonde_buf_finish(&collect.series);
    sonde_buf_finish(&collect.points);
    return err;
}
