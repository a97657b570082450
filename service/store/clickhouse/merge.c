/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums by stack and thread. If the query names a service, the key of a sum is one number, stack XOR
 * thread: both are hashes, and the server sums four times as fast by one number as by two. */
#include "service/store/clickhouse/completeness.h"
#include "service/store/clickhouse/rollup.h"
#include "service/store/clickhouse/rows.h"
#include "service/store/clickhouse/texts/text_cache.h"
#include "service/store/clickhouse/wire/sql.h"

#include "api/hash_index.h"
#include "api/profile/event.h"

#include <stdlib.h>
#include <string.h>

static bool is_state(const struct store_query *query) {
    return query->event && sonde_event_is_state(query->event);
}

/* By step: since when a process counts as alive. */
static void put_alive(struct sonde_buf *sql, const struct store_query *query, const char *step) {
    sonde_buf_printf(
        sql,
        "SELECT step, toInt64(max(last)) - 2 * greatest(toInt64(%d), toInt64(max(pause))) "
        "AS since FROM (SELECT step, max(toUInt32(ts)) AS last, intDiv(max(toUInt32(ts)) - "
        "min(toUInt32(ts)), greatest(count() - 1, 1)) AS pause FROM "
        "(SELECT ts, event, service, host, instance, pid, start, %s AS step FROM samples",
        STORE_STATE_S, step);
    sql_where(sql, query);
    sonde_buf_puts(sql, ") GROUP BY step, event, service, host, instance, pid, start) "
                        "GROUP BY step");
}

/* The last window of each process that lives, with the names that a selector may use. The order is
 * that of begin, then seq. */
void rows_put_states(struct sonde_buf *sql, const struct store_query *query, const char *step) {
    sonde_buf_printf(
        sql,
        " (SELECT step, event, service, host, instance, pid, start, k, v, names, a, b, c, last, "
        "length_s, count_of, lost_of, period_of, weight_of FROM "
        "(SELECT step, event, service, host, instance, pid, start, "
        "argMax(label_names, o) AS k, argMax(label_values, o) AS v, "
        "argMax(threads, o) AS names, argMax(s.stack, o) AS a, "
        "argMax(s.thread, o) AS b, argMax(s.value, o) AS c, toInt64(max(toUInt32(ts))) AS last, "
        "argMax(window_s, o) AS length_s, argMax(samples, o) AS count_of, argMax(dropped, o) AS "
        "lost_of, argMax(period_ns, o) AS period_of, argMax(weight, o) AS weight_of "
        "FROM (SELECT *, %s AS step, "
        "toUInt64(ts) * 4294967296 + seq %% 4294967296 AS o FROM samples",
        step);
    sql_where(sql, query);
    sonde_buf_puts(sql, ") GROUP BY step, event, service, host, instance, pid, start) "
                        "ANY INNER JOIN (");
    put_alive(sql, query, step);
    sonde_buf_puts(sql, ") USING step WHERE last >= since)");
}

void rows_put_source(struct sonde_buf *sql, const struct store_query *query,
                     const struct sonde_buf *range, const char *step) {
    bool has_thread = selector_names(query->selector, "thread");
    if (is_state(query))
        rows_put_states(sql, query, step);
    else
        sonde_buf_puts(sql, " samples");
    sonde_buf_puts(sql, is_state(query)
                            ? " ARRAY JOIN a AS stack, b AS thread, c AS value"
                            : " ARRAY JOIN s.stack AS stack, s.thread AS thread, s.value AS value");
    if (!is_state(query)) {
        sonde_buf_puts(sql, " PREWHERE ");
        if (range)
            sonde_buf_append(sql, range->data, range->len);
        else
            sql_range(sql, query);
    }
    if (selector_root(query->selector) && (has_thread || !is_state(query))) {
        sonde_buf_puts(sql, " WHERE ");
        sql_condition(sql, query->selector,
                      is_state(query) ? SQL_LAST : (has_thread ? SQL_ROW : SQL_WINDOW));
    }
}

/* Where the sums of an answer go. */
struct sums {
    struct sonde_arena *arena;
    struct store_merge *merge;
    size_t room;
    struct hash_index services, threads;
    uint64_t *keys; /* of merge->threads */
    size_t service_room, thread_room;
};

static bool grow(void **items, size_t *room, size_t count, size_t size, struct sonde_arena *arena) {
    if (count < *room)
        return true;
    size_t wanted = *room ? *room * 2 : 64;
    void *bigger = sonde_arena_alloc(arena, wanted * size);
    if (bigger && count)
        memcpy(bigger, *items, count * size);
    *room = bigger ? wanted : *room;
    *items = bigger ? bigger : *items;
    return bigger != NULL;
}

static uint32_t service_number(struct sums *sums, struct sonde_slice name, bool *failed) {
    struct store_merge *merge = sums->merge;
    uint32_t hash = hash_index_data(&sums->services, name.data, name.len), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&sums->services, &probe)) != HASH_INDEX_NONE)
        if (sonde_slice_equals(name, merge->services[number]))
            return number;
    char *copy = sonde_arena_dup(sums->arena, name.data, name.len);
    *failed = *failed || !copy ||
              !grow((void **)&merge->services, &sums->service_room, merge->service_count,
                    sizeof *merge->services, sums->arena) ||
              !hash_index_add(&sums->services, hash, (uint32_t)merge->service_count);
    if (*failed)
        return 0;
    merge->services[merge->service_count] = copy;
    return (uint32_t)merge->service_count++;
}

static uint32_t thread_number(struct sums *sums, uint64_t key, bool *failed) {
    struct store_merge *merge = sums->merge;
    uint32_t hash = hash_index_words(&sums->threads, key, 0), number;
    struct hash_probe probe = hash_probe(hash);
    while ((number = hash_index_next(&sums->threads, &probe)) != HASH_INDEX_NONE)
        if (sums->keys[number] == key)
            return number;
    *failed = *failed ||
              !grow((void **)&sums->keys, &sums->thread_room, merge->thread_count,
                    sizeof *sums->keys, sums->arena) ||
              !hash_index_add(&sums->threads, hash, (uint32_t)merge->thread_count);
    if (*failed)
        return 0;
    sums->keys[merge->thread_count] = key;
    return (uint32_t)merge->thread_count++;
}

static void read_sum(struct row_binary *rows, struct sums *sums, const char *service) {
    struct store_merge *merge = sums->merge;
    if (!grow((void **)&merge->rows, &sums->room, merge->row_count, sizeof *merge->rows,
              sums->arena)) {
        rows->failed = true;
        return;
    }
    struct store_row *row = &merge->rows[merge->row_count];
    struct sonde_slice name = service ? sonde_slice_of(service) : row_binary_slice(rows);
    bool failed = false;
    row->service = service_number(sums, name, &failed);
    row->stack = row_binary_u64(rows);
    row->thread = thread_number(sums, row_binary_u64(rows), &failed);
    row->value = row_binary_i64(rows);
    merge->rows_read += row_binary_u64(rows);
    rows->failed = rows->failed || failed;
    merge->row_count += !rows->failed;
}

/* Reads the names of threads from a table's column "threads". */
static sonde_err read_names(struct fleet *fleet, const char *table, const struct sonde_buf *where,
                            const struct store_query *query, struct sonde_diag *diag) {
    struct sonde_buf sql = {0}, answer = {0};
    struct sonde_arena arena = {0};
    sonde_buf_printf(&sql, "SELECT DISTINCT arrayJoin(threads) FROM %s%s%s", table,
                     where ? " WHERE " : "", where ? where->data : "");
    if (!where)
        sql_where(&sql, query);
    sonde_err err = fleet_query(fleet, &sql, query->stop, &answer, diag);
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows)) {
        const char *name = row_binary_text(&rows, &arena);
        text_cache_add_thread(fleet->cache, sql_thread_key(name), name);
    }
    err = err ? err : fleet_check(&rows, diag);
    sonde_arena_finish(&arena);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    return err;
}

static sonde_err ask_names(struct fleet *fleet, const struct store_query *query,
                           const struct rollup *rollup, struct sonde_diag *diag) {
    struct sonde_buf whole = {0};
    sonde_err err = SONDE_OK;
    if (!rollup->is_used)
        return read_names(fleet, "samples", NULL, query, diag);
    sql_range(&whole, query);
    err = whole.failed ? SONDE_OUT_OF_MEMORY
                       : read_names(fleet, "rollup_windows", &whole, query, diag);
    sonde_buf_finish(&whole);
    if (!err && rollup->has_rest)
        err = read_names(fleet, "samples", &rollup->rest, query, diag);
    return err;
}

/* The server sums by key; names are asked for once, then the cache has them. */
static sonde_err name_threads(struct fleet *fleet, const struct store_query *query,
                              const struct rollup *rollup, struct sums *sums,
                              struct sonde_diag *diag) {
    struct store_merge *merge = sums->merge;
    merge->threads =
        sonde_arena_alloc(sums->arena, (merge->thread_count + 1) * sizeof *merge->threads);
    sonde_err err = merge->threads ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    bool did_ask = false;
    for (size_t i = 0; i < merge->thread_count && !err; i++) {
        const char *name = text_cache_thread(fleet->cache, sums->keys[i], sums->arena);
        if (!name && !did_ask) {
            did_ask = true;
            err = ask_names(fleet, query, rollup, diag);
            name = text_cache_thread(fleet->cache, sums->keys[i], sums->arena);
        }
        merge->threads[i] = name ? name : "";
    }
    return err;
}

/* Sums of samples, or of the rollup; a query that names its service sums by one number. */
static void put_sums(struct sonde_buf *sql, bool has_service, const char *count) {
    if (has_service)
        sonde_buf_printf(
            sql, "SELECT any(stack) AS st, any(thread) AS th, sum(value) AS va, %s AS cn FROM",
            count);
    else
        sonde_buf_printf(
            sql, "SELECT service, stack AS st, thread AS th, sum(value) AS va, %s AS cn FROM",
            count);
}

static void put_keys(struct sonde_buf *sql, bool has_service) {
    sonde_buf_puts(sql, has_service ? " GROUP BY bitXor(stack, thread)"
                                    : " GROUP BY service, stack, thread");
}

static void put_statement(struct sonde_buf *sql, const struct store_query *query,
                          const struct rollup *rollup, bool has_service) {
    if (!rollup->is_used) {
        put_sums(sql, has_service, "count()");
        rows_put_source(sql, query, NULL, "0");
        put_keys(sql, has_service);
        return;
    }
    sonde_buf_printf(sql, "SELECT %s, sum(va), sum(cn) FROM (",
                     has_service ? "any(st), any(th)" : "service, st, th");
    put_sums(sql, has_service, "sum(n)");
    sonde_buf_puts(sql, " rollup_h WHERE ");
    sql_range(sql, query);
    sonde_buf_printf(sql, " AND (toUInt32(ts), generation) IN (%s)", rollup->generations.data);
    put_keys(sql, has_service);
    if (rollup->has_rest) {
        sonde_buf_puts(sql, " UNION ALL ");
        put_sums(sql, has_service, "count()");
        rows_put_source(sql, query, &rollup->rest, "0");
        put_keys(sql, has_service);
    }
    sonde_buf_puts(sql, has_service ? ") GROUP BY bitXor(st, th)" : ") GROUP BY service, st, th");
}

/* Counts how complete the answer is, from the rollup and from the samples that the rollup does not
 * cover. */
static sonde_err measure(struct fleet *fleet, const struct store_query *query,
                         struct rollup *rollup, struct store_merge *merge,
                         struct sonde_diag *diag) {
    sonde_err err = SONDE_OK;
    if (!rollup->is_used || rollup->has_rest)
        err = completeness_add(fleet, query, rollup->is_used ? &rollup->rest : NULL, "0",
                               &rollup->spans, merge, diag);
    else if (fleet_is_cluster(fleet))
        merge->shards_asked = merge->shards_answered = fleet->shard_count;
    sonde_err lost = spans_take(&rollup->spans, merge);
    err = err ? err : lost;
    return err ? err : fleet_add_drawn(fleet, query, "0", merge, diag);
}

sonde_err fleet_merge(struct store *store, const struct store_query *query,
                      struct sonde_arena *arena, struct store_merge *merge,
                      struct sonde_diag *diag) {
    struct fleet *fleet = (struct fleet *)store;
    struct sonde_buf sql = {0}, answer = {0};
    struct sums sums = {.arena = arena, .merge = merge};
    struct rollup rollup = {0};
    const char *service = query->service && query->service[0] ? query->service : NULL;
    *merge = (struct store_merge){0};
    hash_index_init(&sums.services);
    hash_index_init(&sums.threads);
    sonde_err err = rollup_plan(fleet, query, &rollup, merge, diag);
    if (!err) {
        put_statement(&sql, query, &rollup, service != NULL);
        err = fleet_query(fleet, &sql, query->stop, &answer, diag);
    }
    struct row_binary rows = row_binary_of(&answer);
    while (!err && row_binary_more(&rows))
        read_sum(&rows, &sums, service);
    err = err ? err : fleet_check(&rows, diag);
    if (!err)
        err = name_threads(fleet, query, &rollup, &sums, diag);
    if (!err)
        err = measure(fleet, query, &rollup, merge, diag);
    merge->statement = err ? NULL : sonde_arena_dup(arena, sql.data, sql.len);
    rollup_finish(&rollup);
    hash_index_finish(&sums.services);
    hash_index_finish(&sums.threads);
    sonde_buf_finish(&sql);
    fleet_answer_finish(fleet, &answer);
    return err;
}
