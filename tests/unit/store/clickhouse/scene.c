/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/store/clickhouse/scene.h"

#include "service/store/clickhouse/clickhouse.h"
#include "service/store/selector/selector.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static struct server server;
static pid_t owner;

static void stop(void) {
    if (getpid() == owner)
        server_kill(&server);
}

struct server *scene_server(void) {
    if (!server_is_installed())
        check_skip("clickhouse-server is not installed: apt-get install clickhouse-server");
    if (!owner) {
        owner = getpid();
        server_configure(&server, "");
        server_start(&server);
        atexit(stop);
    }
    return &server;
}

const char *scene_url(const char *database, const char *settings) {
    static char url[300];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/%s%s", scene_server()->http_port, database,
             settings);
    return url;
}

struct store *scene_open(const char *database, const struct store_limits *limits) {
    struct sonde_diag diag = {0};
    struct store *store = NULL;
    if (clickhouse_open(scene_url(database, ""), limits, &store, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    return store;
}

struct store_window scene_window(uint64_t seq) {
    static const struct store_label labels[] = {{"pod", "a"}, {"version", "7"}};
    static const char *const threads[] = {"main", "io"};
    static const uint64_t stacks[] = {1, 2};
    static const uint8_t thread[] = {0, 1};
    static const int64_t values[] = {30, 12};
    return (struct store_window){
        .source = 1,
        .seq = seq,
        .epoch = 1,
        .event = "on-cpu",
        .service = "shop",
        .host = "host-1",
        .instance = "00112233445566778899aabbccddeeff",
        .pid = 42,
        .start_unix_ns = 1779990000000000000,
        .begin_unix_s = SCENE_TIME + (int64_t)seq * 10,
        .length_s = 10,
        .period_ns = 52631578,
        .weight = 1,
        .clock = "perf",
        .samples = 3,
        .dropped = 1,
        .labels = labels,
        .label_count = 2,
        .threads = threads,
        .thread_count = 2,
        .stack = stacks,
        .thread = thread,
        .value = values,
        .row_count = 2,
    };
}

struct store_put_result scene_put(struct store *store, const struct store_window *windows,
                                  size_t count) {
    struct store_batch batch = {.windows = windows, .window_count = count};
    struct store_put_result result;
    struct sonde_diag diag = {0};
    if (store_put(store, &batch, &result, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    return result;
}

struct store_query scene_query(void) {
    return (struct store_query){.service = "shop",
                                .event = "on-cpu",
                                .from_unix_s = SCENE_TIME - 43200,
                                .until_unix_s = SCENE_TIME + 43200};
}

int64_t scene_sum(struct store *store, const struct store_query *query) {
    struct sonde_arena arena = {0};
    struct store_merge merge;
    struct sonde_diag diag = {0};
    int64_t sum = 0;
    if (store->ops->merge(store, query, &arena, &merge, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    for (size_t i = 0; i < merge.row_count; i++)
        sum += merge.rows[i].value;
    sonde_arena_finish(&arena);
    return sum;
}

int64_t scene_sum_where(struct store *store, const char *text) {
    struct selector *selector = NULL;
    struct sonde_diag diag = {0};
    struct store_query query = scene_query();
    if (selector_parse(text, NULL, NULL, &selector, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s: %s", text, diag.text);
    query.selector = selector;
    int64_t sum = scene_sum(store, &query);
    selector_destroy(selector);
    return sum;
}
