/* SPDX-License-Identifier: Apache-2.0
 *
 * Windows and totals as rows. Values are stored times their weight, so that a sum needs one column;
 * thread names as keys (sql.h). */
#include "service/store/clickhouse/put.h"
#include "service/store/clickhouse/wire/sql.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_MS 1000000

#define NUMBER(column, type, expression)                                  \
    static void put_##column(struct sonde_buf *block, const void *item) { \
        const struct store_window *window = item;                         \
        type number = (type)(expression);                                 \
        sonde_buf_append(block, &number, sizeof number);                  \
    }
#define TEXT(column)                                                      \
    static void put_##column(struct sonde_buf *block, const void *item) { \
        native_text(block, ((const struct store_window *)item)->column);  \
    }

NUMBER(ts, uint32_t, window->begin_unix_s)
NUMBER(window_s, uint16_t, window->length_s)
NUMBER(period_ns, uint64_t, window->period_ns)
NUMBER(weight, double, window->weight)
NUMBER(pid, uint32_t, window->pid)
NUMBER(start, int64_t, window->start_unix_ns)
NUMBER(source, uint64_t, window->source)
NUMBER(epoch, uint32_t, window->epoch)
NUMBER(seq, uint64_t, window->seq)
NUMBER(samples, uint64_t, window->samples)
NUMBER(dropped, uint64_t, window->dropped)
NUMBER(truncated, uint64_t, window->truncated)
NUMBER(cpu_ms, uint32_t, window->cpu_until_ns / NS_PER_MS - window->cpu_from_ns / NS_PER_MS)
NUMBER(cpu_clock_ms, uint64_t, window->cpu_until_ns / NS_PER_MS)
TEXT(event)
TEXT(service)
TEXT(host)
TEXT(instance)
TEXT(clock)

static size_t count_labels(const void *item) {
    return ((const struct store_window *)item)->label_count;
}

static void put_keys(struct sonde_buf *block, const void *item) {
    const struct store_window *window = item;
    for (uint32_t i = 0; i < window->label_count; i++)
        native_text(block, window->labels[i].key);
}

static void put_values(struct sonde_buf *block, const void *item) {
    const struct store_window *window = item;
    for (uint32_t i = 0; i < window->label_count; i++)
        native_text(block, window->labels[i].value);
}

static size_t count_threads(const void *item) {
    return ((const struct store_window *)item)->thread_count;
}

static void put_threads(struct sonde_buf *block, const void *item) {
    const struct store_window *window = item;
    for (uint32_t i = 0; i < window->thread_count; i++)
        native_text(block, window->threads[i]);
}

static size_t count_rows(const void *item) {
    return ((const struct store_window *)item)->row_count;
}

/* Appends a number of each row, ordered by thread: equal thread keys behind each other take almost
 * no space on the server's disk. */
static void put_by_thread(struct sonde_buf *block, const struct store_window *window,
                          uint64_t (*number)(const struct store_window *, uint32_t row)) {
    size_t next[STORE_MAX_THREADS + 1] = {0};
    char *to = sonde_buf_extend(block, window->row_count * sizeof(uint64_t));
    for (uint32_t i = 0; i < window->row_count; i++)
        next[window->thread[i] + 1]++;
    for (size_t i = 1; i < STORE_MAX_THREADS; i++)
        next[i] += next[i - 1];
    for (uint32_t i = 0; i < window->row_count && to; i++) {
        uint64_t value = number(window, i);
        memcpy(to + next[window->thread[i]]++ * sizeof value, &value, sizeof value);
    }
}

static uint64_t stack_of(const struct store_window *window, uint32_t row) {
    return window->stack[row];
}

static void put_row_stacks(struct sonde_buf *block, const void *item) {
    put_by_thread(block, item, stack_of);
}

static void put_row_threads(struct sonde_buf *block, const void *item) {
    const struct store_window *window = item;
    uint32_t rows[STORE_MAX_THREADS] = {0};
    for (uint32_t i = 0; i < window->row_count; i++)
        rows[window->thread[i]]++;
    for (uint32_t i = 0; i < window->thread_count; i++) {
        uint64_t key = sql_thread_key(window->threads[i]);
        while (rows[i]-- > 0)
            sonde_buf_append(block, &key, sizeof key);
    }
}

static int64_t weighted(int64_t value, double weight) {
    double product = round((double)value * weight);
    if (weight == 1)
        return value;
    return product >= 0x1p63 ? INT64_MAX : product <= -0x1p63 ? INT64_MIN : (int64_t)product;
}

static uint64_t value_of(const struct store_window *window, uint32_t row) {
    return (uint64_t)weighted(window->value[row], window->weight);
}

static void put_row_values(struct sonde_buf *block, const void *item) {
    put_by_thread(block, item, value_of);
}

static const struct native_column window_columns[] = {
    {"ts", "DateTime('UTC')", put_ts, NULL},
    {"window_s", "UInt16", put_window_s, NULL},
    {"period_ns", "UInt64", put_period_ns, NULL},
    {"weight", "Float64", put_weight, NULL},
    {"event", "String", put_event, NULL},
    {"service", "String", put_service, NULL},
    {"host", "String", put_host, NULL},
    {"instance", "String", put_instance, NULL},
    {"pid", "UInt32", put_pid, NULL},
    {"start", "Int64", put_start, NULL},
    {"source", "UInt64", put_source, NULL},
    {"epoch", "UInt32", put_epoch, NULL},
    {"seq", "UInt64", put_seq, NULL},
    {"clock", "String", put_clock, NULL},
    {"samples", "UInt64", put_samples, NULL},
    {"dropped", "UInt64", put_dropped, NULL},
    {"truncated", "UInt64", put_truncated, NULL},
    {"label_names", "Array(String)", put_keys, count_labels},
    {"label_values", "Array(String)", put_values, count_labels},
    {"threads", "Array(String)", put_threads, count_threads},
    {"s.stack", "Array(UInt64)", put_row_stacks, count_rows},
    {"s.thread", "Array(UInt64)", put_row_threads, count_rows},
    {"s.value", "Array(Int64)", put_row_values, count_rows},
    {"cpu_ms", "UInt32", put_cpu_ms, NULL},
    {"cpu_clock_ms", "UInt64", put_cpu_clock_ms, NULL},
};

static void put_window_condition(struct sonde_buf *sql, const struct store_window *windows,
                                 size_t count, const char **texts) {
    int64_t first = windows[0].begin_unix_s, last = first;
    for (size_t i = 1; i < count; i++) {
        first = windows[i].begin_unix_s < first ? windows[i].begin_unix_s : first;
        last = windows[i].begin_unix_s > last ? windows[i].begin_unix_s : last;
    }
    sql_times(sql, first, last + 1);
    for (size_t i = 0; i < count; i++)
        texts[i] = windows[i].event;
    put_in(sql, "event", texts, count);
    for (size_t i = 0; i < count; i++)
        texts[i] = windows[i].service;
    put_in(sql, "service", texts, count);
    for (size_t i = 0; i < count; i++)
        texts[i] = windows[i].host;
    put_in(sql, "host", texts, count);
}

static sonde_err put_windows(struct fleet *fleet, const struct store_batch *batch,
                             struct sonde_arena *arena, struct store_put_result *result,
                             struct sonde_diag *diag) {
    size_t count = batch->window_count;
    struct deliveries all = {
        .table = "samples",
        .columns = window_columns,
        .column_count = sizeof window_columns / sizeof window_columns[0],
        .rows = sonde_arena_alloc(arena, (count + 1) * sizeof *all.rows),
        .items = sonde_arena_alloc(arena, (count + 1) * sizeof *all.items),
        .count = count,
        .stop = batch->stop,
    };
    if (!all.rows || !all.items)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        const struct store_window *window = &batch->windows[i];
        all.rows[i] = (struct delivery){window->source, window->seq,
                                        window->epoch,  fleet_shard_of_text(fleet, window->host),
                                        window,         false};
    }
    put_window_condition(&all.condition, batch->windows, count, (const char **)all.items);
    sonde_err err = all.condition.failed ? SONDE_OUT_OF_MEMORY : put_once(fleet, &all, diag);
    result->duplicates = (uint32_t)all.duplicates;
    result->stored = (uint32_t)(count - all.duplicates);
    sonde_buf_finish(&all.condition);
    return err;
}

/* The totals of one interval, which are neighbours in the batch. */
struct interval {
    const struct store_total *first;
    size_t count;
};

static const struct store_total *first_of(const void *item) {
    return ((const struct interval *)item)->first;
}

#define TOTAL_NUMBER(column, type, expression)                                  \
    static void put_total_##column(struct sonde_buf *block, const void *item) { \
        type number = (type)first_of(item)->expression;                         \
        sonde_buf_append(block, &number, sizeof number);                        \
    }

TOTAL_NUMBER(ts, uint32_t, begin_unix_s)
TOTAL_NUMBER(window_s, uint16_t, length_s)
TOTAL_NUMBER(source, uint64_t, source)
TOTAL_NUMBER(epoch, uint32_t, epoch)
TOTAL_NUMBER(seq, uint64_t, seq)

static void put_total_host(struct sonde_buf *block, const void *item) {
    native_text(block, first_of(item)->host);
}

static size_t count_totals(const void *item) {
    return ((const struct interval *)item)->count;
}

static void put_processes(struct sonde_buf *block, const void *item) {
    for (size_t i = 0; i < count_totals(item); i++)
        native_text(block, first_of(item)[i].process);
}

static void put_total_threads(struct sonde_buf *block, const void *item) {
    for (size_t i = 0; i < count_totals(item); i++)
        native_text(block, first_of(item)[i].thread);
}

static void put_cpu_ns(struct sonde_buf *block, const void *item) {
    for (size_t i = 0; i < count_totals(item); i++)
        sonde_buf_append(block, &first_of(item)[i].cpu_ns, sizeof(int64_t));
}

static const struct native_column total_columns[] = {
    {"ts", "DateTime('UTC')", put_total_ts, NULL},
    {"window_s", "UInt16", put_total_window_s, NULL},
    {"host", "String", put_total_host, NULL},
    {"source", "UInt64", put_total_source, NULL},
    {"epoch", "UInt32", put_total_epoch, NULL},
    {"seq", "UInt64", put_total_seq, NULL},
    {"c.process", "Array(String)", put_processes, count_totals},
    {"c.thread", "Array(String)", put_total_threads, count_totals},
    {"c.cpu_ns", "Array(Int64)", put_cpu_ns, count_totals},
};

static bool is_same_interval(const struct store_total *a, const struct store_total *b) {
    return a->source == b->source && a->epoch == b->epoch && a->seq == b->seq &&
           a->begin_unix_s == b->begin_unix_s && strcmp(a->host, b->host) == 0;
}

/* Groups the totals; returns the number of intervals. */
static size_t find_intervals(const struct fleet *fleet, const struct store_batch *batch,
                             struct interval *intervals, struct delivery *rows) {
    size_t count = 0;
    for (size_t i = 0; i < batch->total_count; i++) {
        const struct store_total *total = &batch->totals[i];
        if (count && is_same_interval(intervals[count - 1].first, total)) {
            intervals[count - 1].count++;
            continue;
        }
        intervals[count] = (struct interval){total, 1};
        rows[count] = (struct delivery){total->source,     total->seq,
                                        total->epoch,      fleet_shard_of_text(fleet, total->host),
                                        &intervals[count], false};
        count++;
    }
    return count;
}

static void put_total_condition(struct sonde_buf *sql, const struct store_batch *batch,
                                const char **texts) {
    int64_t first = batch->totals[0].begin_unix_s, last = first;
    for (size_t i = 0; i < batch->total_count; i++) {
        int64_t time = batch->totals[i].begin_unix_s;
        first = time < first ? time : first;
        last = time > last ? time : last;
        texts[i] = batch->totals[i].host;
    }
    sql_times(sql, first, last + 1);
    put_in(sql, "host", texts, batch->total_count);
}

static sonde_err put_totals(struct fleet *fleet, const struct store_batch *batch,
                            struct sonde_arena *arena, struct sonde_diag *diag) {
    size_t room = batch->total_count;
    struct interval *intervals = sonde_arena_alloc(arena, room * sizeof *intervals);
    struct deliveries all = {
        .table = "host_totals",
        .columns = total_columns,
        .column_count = sizeof total_columns / sizeof total_columns[0],
        .rows = sonde_arena_alloc(arena, room * sizeof *all.rows),
        .items = sonde_arena_alloc(arena, room * sizeof *all.items),
        .stop = batch->stop,
    };
    if (!intervals || !all.rows || !all.items)
        return SONDE_OUT_OF_MEMORY;
    all.count = find_intervals(fleet, batch, intervals, all.rows);
    put_total_condition(&all.condition, batch, (const char **)all.items);
    sonde_err err = all.condition.failed ? SONDE_OUT_OF_MEMORY : put_once(fleet, &all, diag);
    sonde_buf_finish(&all.condition);
    return err;
}

/* What a query finds refers to what is there already: frames, then stacks, then windows. */
sonde_err fleet_put(struct store *store, const struct store_batch *batch,
                    struct store_put_result *result, struct sonde_diag *diag) {
    struct fleet *fleet = (struct fleet *)store;
    struct sonde_arena arena = {0};
    struct sonde_diag reason = {0};
    lock_take(&fleet->put_lock);
    sonde_err err = fleet_put_texts(fleet, batch, result, &reason);
    if (!err && batch->total_count)
        err = put_totals(fleet, batch, &arena, &reason);
    if (!err && batch->window_count)
        err = put_windows(fleet, batch, &arena, result, &reason);
    for (uint32_t i = 0; i < fleet->shard_count && !err; i++)
        fleet->shards[i].is_fresh = fleet->shards[i].is_fresh && !batch->window_count;
    lock_drop(&fleet->put_lock);
    sonde_arena_finish(&arena);
    lock_take(&fleet->lock);
    snprintf(fleet->trouble, sizeof fleet->trouble, "%s", err ? sonde_diag_text(&reason, err) : "");
    lock_drop(&fleet->lock);
    if (err && err != SONDE_OUT_OF_MEMORY)
        err = SONDE_UNAVAILABLE; /* whatever the server says: nothing is wrong with the batch */
    return err ? sonde_fail(diag, err, "%s", sonde_diag_text(&reason, err)) : SONDE_OK;
}
