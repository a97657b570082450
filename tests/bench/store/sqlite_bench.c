/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the SQLite store with a day of one host at 19 Hz and 8 busy cores (model.h). Beside it,
 * 15 minutes of the same data are stored the way DeepFlow and Parca store profiles, in tables with
 * their layouts that are rebuilt in SQLite (peers.h):
 *
 *     bazel run //tests/bench/store:sqlite_bench -- [--quick] [--hours N] [--window SECONDS]
 *
 * Rates are per second of CPU time of the store's calls; making the data is not counted. Query
 * times are the median of 9 runs on the wall clock, with a warm cache. */
#include "service/store/profile.h"
#include "service/store/selector/selector.h"
#include "service/store/sqlite/sqlite.h"
#include "tests/bench/store/model.h"
#include "tests/bench/store/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SAMPLES_PER_S (19 * 8)
#define RUNS          9

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void expect(sonde_err err, const struct sonde_diag *diag) {
    if (!err)
        return;
    fprintf(stderr, "sqlite_bench: %s\n", sonde_diag_text(diag, err));
    exit(1);
}

static double file_bytes(const char *directory) {
    char path[300];
    struct stat status;
    snprintf(path, sizeof path, "%s/history.db", directory);
    expect(stat(path, &status) ? SONDE_IO : SONDE_OK, NULL);
    return (double)status.st_size;
}

struct cost {
    double put, maintain; /* CPU seconds */
    double wall;
};

static void put(struct store *store, const struct store_batch *batch, double *cpu, double *wall) {
    struct sonde_diag diag = {0};
    struct store_put_result result;
    double cpu_before = seconds(CLOCK_PROCESS_CPUTIME_ID), before = seconds(CLOCK_MONOTONIC);
    expect(store_put(store, batch, &result, &diag), &diag);
    *cpu += seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu_before;
    *wall += seconds(CLOCK_MONOTONIC) - before;
}

static struct cost fill(struct store *store, struct model *model, int hours, uint32_t window_s) {
    struct cost cost = {0};
    for (int64_t at = 0; at < hours * 3600; at += window_s) {
        struct store_batch batch = model_interval(model, MODEL_BEGIN + at, window_s);
        put(store, &batch, &cost.put, &cost.wall);
        if ((at + window_s) % 3600)
            continue;
        struct sonde_diag diag = {0};
        double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
        expect(store->ops->maintain(store, MODEL_BEGIN + at + window_s + 130, &diag), &diag);
        cost.maintain += seconds(CLOCK_PROCESS_CPUTIME_ID) - before;
    }
    return cost;
}

/* Stores all stacks and frames; returns the size of the file. */
static double fill_names(const char *directory, struct model *model, double *cpu) {
    struct sonde_diag diag = {0};
    struct store *store;
    double wall = 0;
    expect(sqlite_store_open(directory, NULL, &store, &diag), &diag);
    for (int i = 0; i < MODEL_SERVICES; i++) {
        struct store_batch names = model_names(model, i);
        put(store, &names, cpu, &wall);
    }
    store_close(store);
    return file_bytes(directory);
}

/* --- queries ---------------------------------------------------------------------------------- */

struct answer {
    size_t rows;
    uint64_t rows_read;
    int64_t sum;
};

static struct answer merge(struct store *store, const struct store_query *query) {
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    struct store_merge result;
    expect(store->ops->merge(store, query, &arena, &result, &diag), &diag);
    struct answer answer = {result.row_count, result.rows_read, 0};
    sonde_arena_finish(&arena);
    return answer;
}

/* Everything that is needed for a tree with names. */
static struct answer profile(struct store *store, const struct store_query *query) {
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    struct store_profile result;
    expect(store_profile_query(store, query, &arena, 0, &result, &diag), &diag);
    struct answer answer = {sonde_profile_sample_count(result.profile), result.merge.rows_read, 0};
    sonde_profile_destroy(result.profile);
    sonde_arena_finish(&arena);
    return answer;
}

static struct answer totals(struct store *store, const struct store_query *query) {
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    struct store_merge result;
    struct store_total_row *rows;
    size_t count;
    expect(store->ops->totals(store, query, &arena, &rows, &count, &result, &diag), &diag);
    struct answer answer = {count, result.rows_read, 0};
    sonde_arena_finish(&arena);
    return answer;
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void measure(struct store *store, const char *name, int64_t range_s, int64_t until,
                    const char *service, const char *selector_text,
                    struct answer (*ask)(struct store *, const struct store_query *)) {
    struct selector *selector = NULL;
    struct store_query query = {.event = "on-cpu",
                                .service = service,
                                .from_unix_s = until - range_s,
                                .until_unix_s = until};
    expect(selector_parse(selector_text, NULL, NULL, &selector, NULL), NULL);
    query.selector = selector_text[0] ? selector : NULL;
    double times[RUNS], first = 0;
    struct answer answer = {0};
    for (int i = -1; i < RUNS; i++) {
        double before = seconds(CLOCK_MONOTONIC);
        answer = ask(store, &query);
        *(i < 0 ? &first : &times[i]) = (seconds(CLOCK_MONOTONIC) - before) * 1e3;
    }
    qsort(times, RUNS, sizeof *times, compare);
    printf("%-44s %7.1f ms  (first %.1f, slowest %.1f; %zu rows from %llu)\n", name,
           times[RUNS / 2], first, times[RUNS - 1], answer.rows,
           (unsigned long long)answer.rows_read);
    selector_destroy(selector);
}

static void measure_all(struct store *store, int hours) {
    int64_t until = MODEL_BEGIN + hours * 3600;
    const char *service = "service-0";
    printf("\nqueries (the largest service: 23 %% of all samples)\n");
    measure(store, "merge, 15 min", 900, until, service, "", merge);
    measure(store, "merge, 1 h", 3600, until, service, "", merge);
    measure(store, "merge, all hours", hours * 3600, until, service, "", merge);
    measure(store, "merge, all hours, pid = '1001' (raw)", hours * 3600, until, service,
            "pid = '1001'", merge);
    measure(store, "merge, all hours, thread = 'rpc' (raw)", hours * 3600, until, service,
            "thread = 'rpc'", merge);
    measure(store, "profile with names, 15 min", 900, until, service, "", profile);
    measure(store, "profile with names, 1 h", 3600, until, service, "", profile);
    measure(store, "profile with names, all hours (goal 50)", hours * 3600, until, service, "",
            profile);
    measure(store, "all services, merge, all hours", hours * 3600, until, NULL, "", merge);
    measure(store, "Total, 15 min", 900, until, NULL, "", totals);
    measure(store, "Total, all hours (goal 40)", hours * 3600, until, NULL, "", totals);
}

static void report(struct store *store, const struct cost *cost, int hours, double bytes) {
    struct store_info info;
    struct sonde_diag diag = {0};
    expect(store->ops->info(store, NULL, &info, &diag), &diag);
    double samples = (double)info.samples;
    printf("%.1f M samples in %llu windows\n", samples / 1e6, (unsigned long long)info.windows);
    printf("put                       %6.2f M samples/s/core, %.2f M/s wall with fsync\n",
           samples / cost->put / 1e6, samples / cost->wall / 1e6);
    printf("put and maintain (goal 3) %6.2f M samples/s/core\n",
           samples / (cost->put + cost->maintain) / 1e6);
    printf("size                      %6.2f B/sample, %.1f MB/day (goal 60)\n", bytes / samples,
           bytes / 1e6 * 24 / hours);
}

int main(int argc, char **argv) {
    int hours = 24;
    uint32_t window_s = 10;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0)
            hours = 2;
        else if (strcmp(argv[i], "--hours") == 0 && i + 1 < argc)
            hours = atoi(argv[++i]);
        else if (strcmp(argv[i], "--window") == 0 && i + 1 < argc)
            window_s = (uint32_t)atoi(argv[++i]);
    }
    char directory[] = "/tmp/sqlite_bench.XXXXXX", command[64];
    if (hours < 1 || window_s < 1 || 3600 % window_s || !mkdtemp(directory))
        return 2;
    printf("%d h at 19 Hz x 8 cores, windows of %u s, in %s\n", hours, window_s, directory);
    struct store *store;
    struct sonde_diag diag = {0};
    struct model *model = model_create(SAMPLES_PER_S);
    double names_cpu = 0, names = fill_names(directory, model, &names_cpu);
    printf("names, once               %6.1f MB, %.2f s for %d stacks and %d frames\n", names / 1e6,
           names_cpu, MODEL_SERVICES * MODEL_STACKS, MODEL_SERVICES * MODEL_FUNCTIONS);
    expect(sqlite_store_open(directory, NULL, &store, &diag), &diag);
    struct cost cost = fill(store, model, hours, window_s);
    store_close(store); /* empties the log */
    double bytes = file_bytes(directory) - names;
    expect(sqlite_store_open(directory, NULL, &store, &diag), &diag);
    report(store, &cost, hours, bytes);
    measure_all(store, hours);
    store_close(store);
    peers_run(model, directory);
    model_destroy(model);
    snprintf(command, sizeof command, "rm -r %s", directory);
    return system(command) ? 1 : 0;
}
