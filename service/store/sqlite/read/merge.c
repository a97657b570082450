/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums of a query by service, thread and stack, and the host view, whose stacks are (process,
 * thread). */
#include "api/base/array.h"
#include "service/store/sqlite/engine.h"

#include "api/profile/event.h"
#include "service/store/sqlite/format/sums.h"
#include "service/store/sqlite/read/latest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct merge {
    struct store_merge *result;
    struct sonde_arena *arena;
    struct tally tally;
    struct sums sums; /* of the current stream */
    bool is_state;
    struct latest latest;
    struct store_row *rows;
    size_t row_capacity;
    size_t service_capacity;
};

static void add_rows(struct merge *merge, struct scan *scan, const struct chunk_window *window,
                     struct labelset *set) {
    const struct chunk_row *row = scan->chunk.rows + window->first_row;
    const struct chunk_row *end = row + window->row_count;
    bool asks = set && scan->sets.names_thread;
    merge->result->rows_read += window->row_count;
    for (; row < end; row++) {
        uint32_t thread = scan->thread_map[row->thread];
        if (!asks || scan_row_matches(scan, set, thread))
            sums_add(&merge->sums, thread, row->stack, chunk_weigh(row->value, window->weight));
    }
}

static void on_window(void *context, struct scan *scan, const struct chunk_window *window,
                      struct labelset *set) {
    struct merge *merge = context;
    if (merge->is_state && !latest_has(&merge->latest, scan, window, set))
        return;
    tally_add(&merge->tally, scan->stream, window);
    add_rows(merge, scan, window, set);
}

static void on_hour(void *context, struct scan *scan, const struct tally *tally,
                    const struct chunk *rows) {
    struct merge *merge = context;
    tally_append(&merge->tally, scan->stream, tally);
    for (size_t i = 0; i < rows->window_count; i++)
        add_rows(merge, scan, &rows->windows[i], NULL);
}

/* The ids of the stacks low to high, which are close to each other in the file. */
static void read_ids(struct merge *merge, struct scan *scan, size_t first, uint32_t low,
                     uint32_t high) {
    uint64_t *ids = calloc((size_t)high - low + 1, sizeof *ids);
    if (!ids) {
        db_out_of_memory(scan->db);
        return;
    }
    sqlite3_stmt *row = db_start(scan->db, STACK_IDS, "ii", key_stack(scan->service, low),
                                 key_stack(scan->service, high));
    while (db_row(scan->db, row))
        ids[(uint32_t)sqlite3_column_int64(row, 0) - low] = (uint64_t)sqlite3_column_int64(row, 1);
    for (size_t i = first; i < merge->result->row_count; i++)
        merge->rows[i].stack = ids[merge->rows[i].stack - low];
    free(ids);
}

/* Replaces the numbers in merge->rows, from `first`, by ids. */
static void set_ids(struct merge *merge, struct scan *scan, size_t first) {
    uint64_t low = UINT32_MAX, high = 0, count = merge->result->row_count;
    for (size_t i = first; i < count; i++) {
        uint64_t number = merge->rows[i].stack;
        low = number < low ? number : low;
        high = number > high ? number : high;
    }
    if (high - low < 8 * (count - first) + 4096) {
        read_ids(merge, scan, first, (uint32_t)low, (uint32_t)high);
        return;
    }
    for (size_t i = first; i < count; i++)
        merge->rows[i].stack = (uint64_t)db_number(
            scan->db, 0, STACK_ID, "i", key_stack(scan->service, (uint32_t)merge->rows[i].stack));
}

static void add_service(struct merge *merge, struct scan *scan) {
    struct store_merge *result = merge->result;
    size_t bytes = strlen(scan->service_name);
    if (!array_room(&result->services, &merge->service_capacity, result->service_count, 1) ||
        !(result->services[result->service_count++] =
              sonde_arena_dup(merge->arena, scan->service_name, bytes)))
        db_out_of_memory(scan->db);
}

static void on_stream_end(void *context, struct scan *scan) {
    struct merge *merge = context;
    struct store_merge *result = merge->result;
    size_t count = sums_sort(&merge->sums), first = result->row_count;
    if (merge->sums.failed || merge->tally.failed ||
        !array_room(&merge->rows, &merge->row_capacity, first, count))
        db_out_of_memory(scan->db);
    if (count && !scan->db->failure) {
        for (size_t i = 0; i < count; i++) {
            uint64_t key = merge->sums.items[i].key - 1;
            merge->rows[result->row_count++] =
                (struct store_row){.stack = (uint32_t)key,
                                   .service = (uint32_t)result->service_count,
                                   .thread = (uint32_t)(key >> 32),
                                   .value = merge->sums.items[i].value};
        }
        add_service(merge, scan);
        if (scan->visitor->kind == SERVICE_RECORDED)
            set_ids(merge, scan, first);
    }
    sums_clear(&merge->sums);
}

static void *copy(struct sonde_arena *arena, const void *data, size_t bytes) {
    void *to = sonde_arena_alloc(arena, bytes ? bytes : 1);
    if (to && bytes)
        memcpy(to, data, bytes);
    return to;
}

static void take_results(struct merge *merge, struct scan *scan) {
    struct store_merge *result = merge->result;
    const char **services = result->services;
    result->services = copy(merge->arena, services, result->service_count * sizeof *services);
    free(services);
    result->rows = copy(merge->arena, merge->rows, result->row_count * sizeof *merge->rows);
    result->thread_count = scan->threads.count;
    result->threads = sonde_arena_alloc(merge->arena, (scan->threads.count + 1) * sizeof(char *));
    if (!result->services || !result->rows || !result->threads) {
        db_out_of_memory(scan->db);
        return;
    }
    for (size_t i = 0; i < scan->threads.count; i++)
        result->threads[i] =
            sonde_arena_dup(merge->arena, scan->threads.texts[i], strlen(scan->threads.texts[i]));
    tally_report(&merge->tally, merge->is_state, result);
    result->statement = "chunks and hourly rollups of history.db";
}

static void run(struct db *db, const struct store_query *query, enum service_kind kind,
                struct sonde_arena *arena, struct store_merge *result) {
    struct merge merge = {.result = result, .arena = arena};
    merge.is_state = kind == SERVICE_RECORDED && query->event && sonde_event_is_state(query->event);
    *result = (struct store_merge){0};
    struct scan scan;
    scan_init(&scan, db, query);
    if (merge.is_state)
        latest_find(&merge.latest, &scan);
    scan_run(&scan, &(struct scan_visitor){.context = &merge,
                                           .kind = kind,
                                           .with_rows = true,
                                           .any_event = kind == SERVICE_HOST,
                                           .on_window = on_window,
                                           .on_hour = merge.is_state ? NULL : on_hour,
                                           .on_stream_end = on_stream_end});
    take_results(&merge, &scan);
    scan_finish(&scan);
    latest_finish(&merge.latest);
    tally_finish(&merge.tally);
    sums_finish(&merge.sums);
    free(merge.rows);
}

sonde_err engine_merge(struct store *store, const struct store_query *query,
                       struct sonde_arena *arena, struct store_merge *result,
                       struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    struct db *db = engine_read(engine);
    run(db, query, SERVICE_RECORDED, arena, result);
    return engine_read_end(engine, db, diag);
}

/* The hosts that match. */
struct hosts {
    size_t count;
    uint32_t service;
    char name[STORE_MAX_TEXT + 1], other[STORE_MAX_TEXT + 1];
};

static const char *host_value(void *context, const char *name) {
    return strcmp(name, "host") == 0 ? context : "";
}

static void find_hosts(struct db *db, const struct store_query *query, struct hosts *hosts) {
    sqlite3_stmt *row = db_start(db, STREAM_LIST, "itt", (int64_t)SERVICE_HOST, "", "");
    while (db_row(db, row)) {
        char name[STORE_MAX_TEXT + 1];
        snprintf(name, sizeof name, "%s", db_text(row, 2));
        if (!selector_matches(query->selector, host_value, name))
            continue;
        if (hosts->count++ == 0) {
            hosts->service = (uint32_t)sqlite3_column_int64(row, 1);
            memcpy(hosts->name, name, sizeof name);
        } else {
            memcpy(hosts->other, name, sizeof name);
        }
    }
}

/* The names behind the numbers of a host's stacks. */
static void read_tasks(struct db *db, uint32_t service, struct sonde_arena *arena,
                       const struct store_merge *merge, struct store_total_row *rows) {
    for (size_t i = 0; i < merge->row_count && !db->failure; i++) {
        int64_t key = key_stack(service, (uint32_t)merge->rows[i].stack);
        sqlite3_stmt *row = db_start(db, STACK_RANGE, "ii", key, key);
        struct sonde_slice names = {0};
        if (db_row(db, row))
            names = db_blob(row, 2);
        char *text = sonde_arena_dup(arena, names.data, names.len);
        db_stop(row);
        size_t process = text ? strlen(text) : 0;
        if (!text || process + 1 >= names.len) {
            db_damaged(db);
            return;
        }
        rows[i] = (struct store_total_row){text, text + process + 1, merge->rows[i].value};
    }
}

static void run_totals(struct db *db, const struct store_query *query, const struct hosts *hosts,
                       struct sonde_arena *arena, struct store_total_row **rows,
                       struct store_merge *merge) {
    struct store_query of_host = {.service = hosts->name,
                                  .from_unix_s = query->from_unix_s,
                                  .until_unix_s = query->until_unix_s};
    run(db, &of_host, SERVICE_HOST, arena, merge);
    *rows = sonde_arena_alloc(arena, (merge->row_count + 1) * sizeof **rows);
    if (*rows)
        read_tasks(db, hosts->service, arena, merge, *rows);
    else
        db_out_of_memory(db);
}

sonde_err engine_totals(struct store *store, const struct store_query *query,
                        struct sonde_arena *arena, struct store_total_row **rows, size_t *row_count,
                        struct store_merge *merge, struct sonde_diag *diag) {
    struct engine *engine = (struct engine *)store;
    struct db *db = engine_read(engine);
    struct hosts hosts = {0};
    *merge = (struct store_merge){0};
    *rows = NULL;
    find_hosts(db, query, &hosts);
    if (hosts.count == 1)
        run_totals(db, query, &hosts, arena, rows, merge);
    *row_count = merge->row_count;
    merge->row_count = 0;
    sonde_err err = engine_read_end(engine, db, diag);
    if (!err && hosts.count > 1)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "%zu hosts match, for example '%.64s' and '%.64s'; select one: "
                         "host = '%.64s'",
                         hosts.count, hosts.name, hosts.other, hosts.name);
    return err;
}
