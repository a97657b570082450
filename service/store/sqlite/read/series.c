/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums by group and step. A group is the values of the group_by names. */
#include "service/store/sqlite/read/chosen_stacks.h"

#include "api/profile/event.h"
#include "service/store/sqlite/engine.h"
#include "service/store/sqlite/format/sums.h"
#include "service/store/sqlite/read/latest.h"

#include <stdlib.h>
#include <string.h>

#define MAX_GROUP_BY 8

struct series {
    const struct store_series_query *query;
    struct store_series_result *result;
    struct sonde_arena *arena;
    struct tally tally;
    struct sums sums;        /* by (group, step) */
    struct text_list groups; /* the values, each ended by \1 */
    struct sonde_buf key;
    bool names_thread; /* group_by does */
    bool is_state;
    struct latest latest;
    struct chosen_stacks chosen;
};

/* The group of a label set's values. Values have no byte 1 in the key: it is replaced. */
static uint32_t group_of(struct series *series, struct scan *scan, const struct labelset *set) {
    series->key.len = 0;
    for (size_t i = 0; i < series->query->group_count; i++) {
        const char *value = labelset_value(&scan->sets, set, series->query->group_by[i]);
        for (; *value; value++)
            sonde_buf_putc(&series->key, *value == 1 ? '?' : *value);
        sonde_buf_putc(&series->key, 1);
    }
    return text_list_number(&series->groups, series->key.data ? series->key.data : "");
}

static uint32_t step_of(const struct series *series, int64_t time) {
    return (uint32_t)(time / series->query->step_s);
}

/* Returns what a row adds to its step; 0 if the query does not count its stack. */
static int64_t value_of(struct series *series, struct scan *scan, const struct chunk_row *row,
                        double weight) {
    bool counts = !series->chosen.ids || chosen_stacks_has(&series->chosen, scan, row->stack);
    return counts ? chunk_weigh(row->value, weight) : 0;
}

static void add_rows(struct series *series, struct scan *scan, const struct chunk_window *window,
                     struct labelset *set) {
    const struct chunk_row *row = scan->chunk.rows + window->first_row;
    for (uint32_t i = 0; i < window->row_count; i++, row++) {
        uint32_t thread = scan->thread_map[row->thread];
        if (!scan_row_matches(scan, set, thread))
            continue;
        scan->sets.thread = scan->threads.texts[thread];
        sums_add(&series->sums, group_of(series, scan, set), step_of(series, window->begin_unix_s),
                 value_of(series, scan, row, window->weight));
        scan->sets.thread = NULL;
    }
}

static void on_window(void *context, struct scan *scan, const struct chunk_window *window,
                      struct labelset *set) {
    struct series *series = context;
    if (series->is_state && !latest_has(&series->latest, scan, window, set))
        return;
    tally_add(&series->tally, scan->stream, window);
    series->result->completeness.rows_read += window->row_count;
    if (series->is_state && window->row_count == 0)
        return; /* the end of a process is not a point: the next one has no snapshot yet */
    if (series->names_thread || scan->sets.names_thread || series->chosen.ids)
        add_rows(series, scan, window, set);
    else
        sums_add(&series->sums, group_of(series, scan, set), step_of(series, window->begin_unix_s),
                 chunk_weigh(window->sum, window->weight));
}

static void on_hour(void *context, struct scan *scan, const struct tally *tally,
                    const struct chunk *rows) {
    struct series *series = context;
    tally_append(&series->tally, scan->stream, tally);
    for (size_t i = 0; i < tally->count; i++) {
        struct labelset *set = labelsets_get(&scan->sets, tally->entries[i].labels);
        if (set)
            sums_add(&series->sums, group_of(series, scan, set),
                     step_of(series, scan->hour * HOUR_S), tally->entries[i].sum);
    }
}

/* The values in a group's key. */
static const char *const *split(struct series *series, const char *key) {
    size_t count = series->query->group_count;
    const char **values = sonde_arena_alloc(series->arena, (count + 1) * sizeof *values);
    for (size_t i = 0; values && i < count; i++) {
        size_t len = strcspn(key, "\1");
        values[i] = sonde_arena_dup(series->arena, key, len);
        if (!values[i])
            return NULL;
        key += len + (key[len] == 1);
    }
    return values;
}

static int compare_sums(const void *left, const void *right) {
    const struct store_series *a = left, *b = right;
    return (a->sum < b->sum) - (a->sum > b->sum);
}

/* The series of the sorted items; points are in one array. */
static void build(struct series *series, struct db *db) {
    size_t count = sums_sort(&series->sums), at = 0;
    struct store_series *all =
        sonde_arena_alloc(series->arena, (series->groups.count + 1) * sizeof *all);
    struct store_point *points = sonde_arena_alloc(series->arena, (count + 1) * sizeof *points);
    if (!all || !points || series->sums.failed || series->groups.failed || series->key.failed ||
        series->tally.failed) {
        db_out_of_memory(db);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t key = series->sums.items[i].key - 1;
        uint32_t group = (uint32_t)(key >> 32);
        if (i == 0 || group != (uint32_t)((series->sums.items[i - 1].key - 1) >> 32)) {
            all[at] = (struct store_series){.points = &points[i]};
            all[at++].values = split(series, series->groups.texts[group]);
        }
        points[i] = (struct store_point){(int64_t)(uint32_t)key * series->query->step_s,
                                         series->sums.items[i].value};
        all[at - 1].point_count++;
        all[at - 1].sum = chunk_add(all[at - 1].sum, points[i].value);
        if (!all[at - 1].values)
            db_out_of_memory(db);
    }
    qsort(all, at, sizeof *all, compare_sums);
    series->result->series = all;
    series->result->series_count = at < series->query->limit ? at : series->query->limit;
    series->result->omitted = at - series->result->series_count;
}

static void run(struct series *series, struct db *db) {
    const struct store_series_query *query = series->query;
    for (size_t i = 0; i < query->group_count; i++)
        series->names_thread |= strcmp(query->group_by[i], "thread") == 0;
    series->is_state = query->query.event && sonde_event_is_state(query->query.event);
    series->latest.step_s = query->step_s;
    struct scan scan;
    scan_init(&scan, db, &query->query);
    if (series->is_state)
        latest_find(&series->latest, &scan);
    bool uses_hours = query->step_s % HOUR_S == 0 && !series->is_state && !series->names_thread &&
                      !series->chosen.ids;
    scan_run(&scan, &(struct scan_visitor){.context = series,
                                           .with_rows = series->names_thread || series->chosen.ids,
                                           .on_window = on_window,
                                           .on_hour = uses_hours ? on_hour : NULL});
    build(series, db);
    struct store_merge *completeness = &series->result->completeness;
    tally_report(&series->tally, series->is_state, completeness);
    completeness->statement = "chunks and hourly rollups of history.db";
    scan_finish(&scan);
}

sonde_err engine_series(struct store *store, const struct store_series_query *query,
                        struct sonde_arena *arena, struct store_series_result *result,
                        struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    *result = (struct store_series_result){0};
    if (query->step_s == 0 || query->limit == 0 || query->group_count > MAX_GROUP_BY)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "a series needs a step, a limit and at most 8 names to group by");
    struct db *db = engine_read(engine);
    struct series series = {.query = query, .result = result, .arena = arena};
    series.chosen = (struct chosen_stacks){.ids = query->stacks, .count = query->stack_count};
    run(&series, db);
    latest_finish(&series.latest);
    chosen_stacks_finish(&series.chosen);
    tally_finish(&series.tally);
    sums_finish(&series.sums);
    text_list_finish(&series.groups);
    sonde_buf_finish(&series.key);
    return engine_read_end(engine, db, diag);
}
