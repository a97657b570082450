/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/store/clickhouse_peers.h"

#include "service/store/clickhouse/http/http.h"
#include "service/store/clickhouse/wire/native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zstd.h>

#define HOSTS    200
#define WINDOW_S 60
#define RUNS     5

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct http_shared shared;

static struct http_server *connect_to(const struct server *server) {
    char url[60];
    struct http_server *http = NULL;
    struct sonde_diag diag = {0};
    snprintf(url, sizeof url, "http://127.0.0.1:%d", server->http_port);
    if (http_server_create(url, NULL, &shared, &http, &diag) != SONDE_OK) {
        fprintf(stderr, "clickhouse_bench: %s\n", diag.text);
        exit(1);
    }
    return http;
}

static void run(const struct server *server, const char *sql, struct sonde_slice body,
                struct sonde_buf *answer) {
    struct http_server *http = connect_to(server);
    struct http_request request = {.sql = sql, .body = body, .timeout_ms = 600000};
    struct sonde_diag diag = {0};
    if (http_run(http, &request, answer, NULL, &diag) != SONDE_OK) {
        fprintf(stderr, "clickhouse_bench: %s\n", diag.text);
        exit(1);
    }
    http_server_destroy(http);
}

double peers_number(const struct server *server, const char *sql) {
    struct sonde_buf answer = {0};
    run(server, sql, (struct sonde_slice){0}, &answer);
    double number = answer.data ? atof(answer.data) : 0;
    http_answer_finish(&shared, &answer);
    return number;
}

void peers_optimize(const struct server *server, const char *table) {
    char sql[200];
    snprintf(sql, sizeof sql, "OPTIMIZE TABLE %s FINAL", table);
    peers_number(server, sql);
}

/* What both layouts need of a stack. */
struct text {
    const struct store_frame *frames[64];
    uint32_t depth;
    char *blob; /* zstd of the folded stack */
    size_t blob_len;
};

struct item {
    uint32_t time, pid;
    const char *service, *thread;
    int64_t value;
    const struct text *text;
};

static struct text texts[MODEL_SERVICES][MODEL_STACKS];

static void fold(struct text *text) {
    char folded[64 * 100];
    size_t len = 0;
    for (uint32_t i = text->depth; i-- > 0;)
        len +=
            (size_t)sprintf(folded + len, "%s%s", len ? ";" : "", text->frames[i]->lines->function);
    size_t bound = ZSTD_compressBound(len);
    text->blob = malloc(bound);
    text->blob_len = ZSTD_compress(text->blob, bound, folded, len, 1);
}

static int by_id(const void *left, const void *right) {
    const struct store_frame *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

static void make_texts(struct model *model, int service) {
    struct store_batch names = model_names(model, service);
    struct store_frame *sorted = malloc(names.frame_count * sizeof *sorted);
    memcpy(sorted, names.frames, names.frame_count * sizeof *sorted);
    qsort(sorted, names.frame_count, sizeof *sorted, by_id);
    for (size_t i = 0; i < names.stack_count; i++) {
        struct text *text = &texts[service][i];
        text->depth = names.stacks[i].frame_count < 64 ? names.stacks[i].frame_count : 64;
        for (uint32_t at = 0; at < text->depth; at++) {
            struct store_frame wanted = {.id = names.stacks[i].frames[at]};
            text->frames[at] = bsearch(&wanted, sorted, names.frame_count, sizeof *sorted, by_id);
        }
        fold(text);
    }
    /* The sorted copy is used until the program ends. */
}

static void put_time(struct sonde_buf *block, const void *item) {
    sonde_buf_append(block, &((const struct item *)item)->time, 4);
}

static void put_service(struct sonde_buf *block, const void *item) {
    native_text(block, ((const struct item *)item)->service);
}

static void put_process(struct sonde_buf *block, const void *item) {
    sonde_buf_append(block, &((const struct item *)item)->pid, 4);
}

static void put_thread(struct sonde_buf *block, const void *item) {
    native_text(block, ((const struct item *)item)->thread);
}

static void put_value(struct sonde_buf *block, const void *item) {
    sonde_buf_append(block, &((const struct item *)item)->value, 8);
}

static void put_blob(struct sonde_buf *block, const void *item) {
    const struct text *text = ((const struct item *)item)->text;
    native_varint(block, text->blob_len);
    sonde_buf_append(block, text->blob, text->blob_len);
}

static size_t count_frames(const void *item) {
    return ((const struct item *)item)->text->depth;
}

#define FRAMES(name, expression)                                        \
    static void put_##name(struct sonde_buf *block, const void *item) { \
        const struct text *text = ((const struct item *)item)->text;    \
        for (uint32_t i = 0; i < text->depth; i++)                      \
            expression;                                                 \
    }
FRAMES(addresses, sonde_buf_append(block, &text->frames[i]->address, 8))
FRAMES(build_ids, native_text(block, text->frames[i]->build_id))
FRAMES(functions, native_text(block, text->frames[i]->lines->function))
FRAMES(files, native_text(block, text->frames[i]->lines->file))
FRAMES(modules, native_text(block, text->frames[i]->module))

static const struct layout {
    const char *name, *schema, *query;
    struct native_column columns[10];
    size_t column_count;
} layouts[] = {
    {"DeepFlow",
     "CREATE TABLE peer_deepflow (time DateTime, app_service String, process_id UInt32, "
     "thread String, value Int64, profile_location_str String) ENGINE = MergeTree PARTITION BY "
     "intDiv(toUInt32(time), 86400) ORDER BY (app_service, time)",
     "SELECT profile_location_str, value FROM peer_deepflow WHERE app_service = 'service-0' "
     "FORMAT RowBinary",
     {{"time", "DateTime", put_time, NULL},
      {"app_service", "String", put_service, NULL},
      {"process_id", "UInt32", put_process, NULL},
      {"thread", "String", put_thread, NULL},
      {"value", "Int64", put_value, NULL},
      {"profile_location_str", "String", put_blob, NULL}},
     6},
    {"Parca",
     "CREATE TABLE peer_parca (time DateTime, service String, pid UInt32, thread String, "
     "value Int64, addresses Array(UInt64), build_ids Array(String), functions Array(String), "
     "files Array(String), mappings Array(String)) ENGINE = MergeTree PARTITION BY "
     "intDiv(toUInt32(time), 86400) ORDER BY (service, time)",
     "SELECT addresses, build_ids, functions, files, mappings, sum(value) FROM peer_parca WHERE "
     "service = 'service-0' GROUP BY addresses, build_ids, functions, files, mappings "
     "FORMAT RowBinary",
     {{"time", "DateTime", put_time, NULL},
      {"service", "String", put_service, NULL},
      {"pid", "UInt32", put_process, NULL},
      {"thread", "String", put_thread, NULL},
      {"value", "Int64", put_value, NULL},
      {"addresses", "Array(UInt64)", put_addresses, count_frames},
      {"build_ids", "Array(String)", put_build_ids, count_frames},
      {"functions", "Array(String)", put_functions, count_frames},
      {"files", "Array(String)", put_files, count_frames},
      {"mappings", "Array(String)", put_modules, count_frames}},
     10},
};

static const struct text *text_of(struct model *model, int service, uint64_t id) {
    struct store_batch names = model_names(model, service);
    for (size_t i = 0; i < names.stack_count; i++)
        if (names.stacks[i].id == id)
            return &texts[service][i];
    return NULL;
}

static size_t add_items(struct model *model, const struct store_batch *batch, struct item *items,
                        size_t count) {
    for (size_t i = 0; i < batch->window_count; i++) {
        const struct store_window *window = &batch->windows[i];
        int service = atoi(window->service + strlen("service-"));
        for (uint32_t row = 0; row < window->row_count; row++)
            items[count++] = (struct item){(uint32_t)window->begin_unix_s,
                                           window->pid,
                                           window->service,
                                           window->threads[window->thread[row]],
                                           window->value[row],
                                           text_of(model, service, window->stack[row])};
    }
    return count;
}

static size_t fill(const struct server *server, struct model *model, const struct layout *layout,
                   int minutes, double *cpu_s) {
    static struct item items[HOSTS * WINDOW_S * 20];
    static const void *pointers[HOSTS * WINDOW_S * 20];
    char sql[100];
    size_t rows = 0;
    snprintf(sql, sizeof sql, "INSERT INTO peer_%s FORMAT Native",
             layout->column_count == 6 ? "deepflow" : "parca");
    for (int minute = 0; minute < minutes; minute++) {
        size_t all = 0;
        for (int host = 0; host < HOSTS; host++) {
            struct store_batch batch =
                model_interval(model, MODEL_BEGIN + minute * WINDOW_S, WINDOW_S);
            all = add_items(model, &batch, items, all);
        }
        for (size_t i = 0; i < all; i++)
            pointers[i] = &items[i];
        struct sonde_buf block = {0}, answer = {0};
        native_block(&block, layout->columns, layout->column_count, pointers, all);
        double cpu = server_cpu_s(server);
        run(server, sql, sonde_buf_slice(&block), &answer);
        *cpu_s += server_cpu_s(server) - cpu;
        rows += all;
        sonde_buf_finish(&block);
        http_answer_finish(&shared, &answer);
    }
    return rows;
}

/* DeepFlow's server expands each distinct stack and sums rows one by one; here only the time until
 * the rows have arrived counts, which flatters it. */
static double query_ms(const struct server *server, const char *sql) {
    double best = 1e9;
    for (int i = 0; i < RUNS; i++) {
        struct sonde_buf answer = {0};
        double begin = now_s();
        run(server, sql, (struct sonde_slice){0}, &answer);
        double ms = (now_s() - begin) * 1e3;
        best = ms < best ? ms : best;
        http_answer_finish(&shared, &answer);
    }
    return best;
}

void peers_run(const struct server *server, struct model *model, int minutes) {
    for (int i = 0; i < MODEL_SERVICES; i++)
        make_texts(model, i);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++) {
        const struct layout *layout = &layouts[i];
        const char *table = i == 0 ? "peer_deepflow" : "peer_parca";
        char sql[200];
        double cpu_s = 0;
        peers_number(server, layout->schema);
        size_t rows = fill(server, model, layout, minutes, &cpu_s);
        peers_optimize(server, table);
        snprintf(sql, sizeof sql,
                 "SELECT sum(bytes_on_disk) FROM system.parts WHERE active AND table = '%s'",
                 table);
        double bytes = peers_number(server, sql);
        printf("%-9s layout: %5.2f M rows of %d minutes; %.3f M rows/s per server core; %.1f "
               "B/row; the service's rows in %.0f ms\n",
               layout->name, (double)rows / 1e6, minutes, (double)rows / cpu_s / 1e6,
               bytes / (double)rows, query_ms(server, layout->query));
        fflush(stdout);
    }
}
