/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the ClickHouse store on a server of its own with synthetic fleets (model.h). Beside it,
 * the same kind of data is stored the way DeepFlow and Parca store profiles (clickhouse_peers.h):
 *
 *     bazel run //tests/bench/store:clickhouse_bench -- [--quick]
 *
 *     dense    few hosts, 19 Hz on 8 busy cores: ingest and bytes per sample
 *     fleet    1,000 hosts (--quick: 200) for an hour: one service as a tree
 *     day      24 hours of a smaller fleet: one service from rollups
 *
 * Ingest is per CPU second of the server, questions about repetitions included. Times are on the
 * wall clock, with a warm cache. */
#include "service/store/clickhouse/clickhouse.h"
#include "service/store/profile.h"
#include "tests/bench/store/clickhouse_peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RUNS       21
#define HOST_NAMES 1000
#define WINDOW_S   120

static struct server server;

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void expect(sonde_err err, const struct sonde_diag *diag) {
    if (!err)
        return;
    fprintf(stderr, "clickhouse_bench: %s\n", sonde_diag_text(diag, err));
    server_kill(&server);
    exit(1);
}

static struct store *open_store(const char *database) {
    char url[100];
    struct store *store = NULL;
    struct sonde_diag diag = {0};
    snprintf(url, sizeof url, "http://127.0.0.1:%d/%s", server.http_port, database);
    expect(clickhouse_open(url, NULL, &store, &diag), &diag);
    return store;
}

/* Copies of windows with their rows, as one batch. */
struct gathered {
    struct store_window *windows;
    size_t count, room;
    struct sonde_arena arena;
    uint64_t rows, samples;
};

static void *copy(struct sonde_arena *arena, const void *data, size_t size) {
    return sonde_arena_dup(arena, data, size);
}

static void gather(struct gathered *to, const struct store_batch *batch, int host, int64_t time) {
    static char names[HOST_NAMES][16];
    snprintf(names[host], sizeof names[host], "host-%d", host);
    for (size_t i = 0; i < batch->window_count; i++) {
        struct store_window window = batch->windows[i];
        window.host = names[host];
        window.source = (uint64_t)host + 1;
        window.seq = (uint64_t)time * MODEL_PROCESSES + i;
        window.start_unix_ns = host;
        window.stack = copy(&to->arena, window.stack, window.row_count * 8);
        window.value = copy(&to->arena, window.value, window.row_count * 8);
        window.thread = copy(&to->arena, window.thread, window.row_count);
        to->rows += window.row_count;
        to->samples += window.samples;
        if (to->count == to->room) {
            to->room = to->room ? to->room * 2 : 1024;
            to->windows = realloc(to->windows, to->room * sizeof *to->windows);
        }
        to->windows[to->count++] = window;
    }
}

struct load {
    double cpu_s, wall_s;
    uint64_t rows, samples;
};

static void put(struct store *store, struct gathered *batch, struct load *load) {
    struct store_batch all = {.windows = batch->windows, .window_count = batch->count};
    struct store_put_result result;
    struct sonde_diag diag = {0};
    double cpu = server_cpu_s(&server), begin = now_s();
    expect(store_put(store, &all, &result, &diag), &diag);
    load->wall_s += now_s() - begin;
    load->cpu_s += server_cpu_s(&server) - cpu;
    load->rows += batch->rows;
    load->samples += batch->samples;
    sonde_arena_finish(&batch->arena);
    free(batch->windows);
    *batch = (struct gathered){0};
}

/* A fleet of hosts for some minutes; a batch has a minute, or as much as has 100,000 rows. */
static struct load fill(struct store *store, struct model *model, int hosts, int minutes) {
    struct load load = {0};
    struct gathered batch = {0};
    for (int minute = 0; minute < minutes; minute += WINDOW_S / 60)
        for (int host = 0; host < hosts; host++) {
            int64_t time = MODEL_BEGIN + minute * 60;
            struct store_batch windows = model_interval(model, time, WINDOW_S);
            gather(&batch, &windows, host, time);
            bool is_last =
                host == hosts - 1 && (minute + WINDOW_S / 60 >= minutes || batch.rows > 100000);
            if (is_last || batch.rows > 400000)
                put(store, &batch, &load);
        }
    return load;
}

static void fill_names(struct store *store, struct model *model) {
    struct store_put_result result;
    struct sonde_diag diag = {0};
    for (int i = 0; i < MODEL_SERVICES; i++) {
        struct store_batch names = model_names(model, i);
        expect(store_put(store, &names, &result, &diag), &diag);
    }
}

static double table_bytes(const char *database, const char *table) {
    char sql[300];
    snprintf(sql, sizeof sql,
             "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND database = '%s' AND "
             "table = '%s'",
             database, table);
    return peers_number(&server, sql);
}

static void print_load(const char *name, const struct load *load, double bytes) {
    printf("%-7s %5.1f M rows, %5.1f M samples; %.2f M rows/s and %.2f M samples/s per server "
           "core; %.2f M rows/s on the wall; %.2f B/row, %.2f B/sample\n",
           name, (double)load->rows / 1e6, (double)load->samples / 1e6,
           (double)load->rows / load->cpu_s / 1e6, (double)load->samples / load->cpu_s / 1e6,
           (double)load->rows / load->wall_s / 1e6, bytes / (double)load->rows,
           bytes / (double)load->samples);
    fflush(stdout);
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

enum question { MERGE, PROFILE };

static size_t ask(struct store *store, const struct store_query *query, enum question question) {
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    struct store_profile profile = {0};
    struct store_merge merge;
    size_t rows;
    if (question == MERGE) {
        expect(store->ops->merge(store, query, &arena, &merge, &diag), &diag);
        rows = merge.rows_read;
    } else {
        expect(store_profile_query(store, query, &arena, 0, &profile, &diag), &diag);
        rows = profile.merge.rows_read;
        sonde_profile_destroy(profile.profile);
    }
    sonde_arena_finish(&arena);
    return rows;
}

static void time_query(struct store *store, const char *name, int64_t hours,
                       enum question question) {
    struct store_query query = {.event = "on-cpu",
                                .service = "service-1",
                                .from_unix_s = MODEL_BEGIN,
                                .until_unix_s = MODEL_BEGIN + hours * 3600};
    double times[RUNS];
    size_t rows = ask(store, &query, question);
    double cpu_s = server_cpu_s(&server);
    for (int i = 0; i < RUNS; i++) {
        double begin = now_s();
        ask(store, &query, question);
        times[i] = (now_s() - begin) * 1e3;
    }
    qsort(times, RUNS, sizeof *times, compare);
    printf("%-44s %5.2f M rows; p50 %6.1f ms, p95 %6.1f ms; server CPU %.0f ms\n", name,
           (double)rows / 1e6, times[RUNS / 2], times[RUNS * 95 / 100],
           (server_cpu_s(&server) - cpu_s) / RUNS * 1e3);
    fflush(stdout);
}

static void run_dense(bool is_quick) {
    struct model *model = model_create(19 * 8);
    struct store *store = open_store("dense");
    struct load load = fill(store, model, 20, is_quick ? 10 : 60);
    peers_optimize(&server, "dense.samples");
    print_load("dense", &load, table_bytes("dense", "samples"));
    store_close(store);
    model_destroy(model);
}

static void run_fleet(struct model *model, bool is_quick) {
    struct store *store = open_store("fleet");
    fill_names(store, model);
    struct load load = fill(store, model, is_quick ? 200 : HOST_NAMES, 60);
    peers_optimize(&server, "fleet.samples");
    print_load("fleet", &load, table_bytes("fleet", "samples"));
    time_query(store, "1 h of a service: sums", 1, MERGE);
    time_query(store, "1 h of a service: profile with names", 1, PROFILE);
    store_close(store);
}

static void run_day(struct model *model, bool is_quick) {
    struct store *store = open_store("day");
    struct sonde_diag diag = {0};
    fill_names(store, model);
    struct load load = fill(store, model, is_quick ? 20 : 100, 24 * 60);
    print_load("day", &load, table_bytes("day", "samples"));
    time_query(store, "24 h of a service from samples: sums", 24, MERGE);
    double begin = now_s();
    expect(store->ops->maintain(store, MODEL_BEGIN + 25 * 3600, &diag), &diag);
    printf("%-44s %.2f s\n", "rollup of 24 hours", now_s() - begin);
    time_query(store, "24 h of a service from rollups: sums", 24, MERGE);
    time_query(store, "24 h of a service from rollups: profile", 24, PROFILE);
    store_close(store);
}

int main(int argc, char **argv) {
    bool is_quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    if (!server_is_installed()) {
        fprintf(stderr, "clickhouse_bench: apt-get install clickhouse-server\n");
        return 1;
    }
    server_configure(&server, "");
    server_start(&server);
    run_dense(is_quick);
    struct model *model = model_create(4);
    run_fleet(model, is_quick);
    run_day(model, is_quick);
    peers_run(&server, model, is_quick ? 5 : 15);
    model_destroy(model);
    server_kill(&server);
    return 0;
}
