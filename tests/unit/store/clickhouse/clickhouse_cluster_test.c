/* SPDX-License-Identifier: Apache-2.0
 *
 * The store on a cluster of two shards with two replicas each, with Debian's ZooKeeper. */
#include "service/store/clickhouse/clickhouse.h"
#include "tests/unit/check.h"
#include "tests/unit/store/clickhouse/scene.h"
#include "tests/unit/temporary.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SERVERS  4 /* shard 1: 0 and 1; shard 2: 2 and 3 */
#define HOSTS    20
#define JAR      "/usr/share/java/zookeeper.jar"
#define ATTEMPTS 600

static struct server servers[SERVERS];
static pid_t zookeeper;

static void stop(void) {
    for (int i = 0; i < SERVERS; i++)
        server_kill(&servers[i]);
    kill(zookeeper, SIGKILL);
}

static void pause_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

static void start_zookeeper(int port) {
    char folder[200], path[300];
    temporary_template(folder, sizeof folder);
    CHECK(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/zoo.cfg", folder);
    FILE *file = fopen(path, "w");
    fprintf(file, "tickTime=500\ndataDir=%s\nclientPort=%d\nadmin.enableServer=false\n", folder,
            port);
    fclose(file);
    zookeeper = fork();
    if (zookeeper == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        snprintf(folder + strlen(folder), 20, "/out");
        if (!freopen(folder, "w", stdout) || dup2(1, 2) < 0)
            _exit(126);
        execlp("java", "java", "-cp", JAR, "org.apache.zookeeper.server.ZooKeeperServerMain", path,
               (char *)NULL);
        _exit(127);
    }
}

static void configure(int zookeeper_port) {
    char extra[2000];
    for (int i = 0; i < SERVERS; i++) {
        servers[i].http_port = server_free_port();
        servers[i].tcp_port = server_free_port();
    }
    for (int i = 0; i < SERVERS; i++) {
        int len = snprintf(extra, sizeof extra, "<remote_servers><fleet>");
        for (int shard = 0; shard < 2; shard++)
            len += snprintf(extra + len, sizeof extra - (size_t)len,
                            "<shard><internal_replication>true</internal_replication>"
                            "<replica><host>127.0.0.1</host><port>%d</port></replica>"
                            "<replica><host>127.0.0.1</host><port>%d</port></replica></shard>",
                            servers[2 * shard].tcp_port, servers[2 * shard + 1].tcp_port);
        snprintf(extra + len, sizeof extra - (size_t)len,
                 "</fleet></remote_servers><zookeeper><node><host>127.0.0.1</host><port>%d</port>"
                 "</node></zookeeper><macros><shard>%d</shard><replica>r%d</replica></macros>",
                 zookeeper_port, i / 2 + 1, i);
        server_configure(&servers[i], extra);
        server_start(&servers[i]);
    }
}

static struct store *try_open(struct sonde_diag *diag) {
    char list[600];
    int len = 0;
    struct store *store = NULL;
    for (int i = 0; i < SERVERS; i++)
        len += snprintf(list + len, sizeof list - (size_t)len, "%shttp://127.0.0.1:%d/fleet%s",
                        i ? "," : "", servers[i].http_port, i ? "" : "?cluster=fleet");
    return clickhouse_open(list, NULL, &store, diag) == SONDE_OK ? store : NULL;
}

/* Opens the store; starts everything the first time. */
static struct store *open_cluster(void) {
    struct sonde_diag diag = {0};
    struct store *store = NULL;
    if (!server_is_installed() || access(JAR, R_OK) != 0)
        check_skip("missing: apt-get install clickhouse-server zookeeper");
    if (!zookeeper) {
        int port = server_free_port();
        start_zookeeper(port);
        configure(port);
        atexit(stop);
    }
    for (int i = 0; i < ATTEMPTS && !store; i++) {
        store = try_open(&diag);
        if (!store)
            pause_ms(100);
    }
    if (!store)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    return store;
}

static uint64_t next_seq = 0;
static int64_t expected_sum = 0;
static char hosts[HOSTS][16];

static struct store_window window_of(int host) {
    struct store_window window = scene_window(next_seq++);
    snprintf(hosts[host], sizeof hosts[host], "host-%d", host);
    window.host = hosts[host];
    window.begin_unix_s = SCENE_TIME + (int64_t)next_seq;
    return window;
}

static void put_all(struct store *store) {
    struct store_window windows[HOSTS];
    for (int i = 0; i < HOSTS; i++)
        windows[i] = window_of(i);
    CHECK_INT(scene_put(store, windows, HOSTS).stored, ==, HOSTS);
    expected_sum += HOSTS * 42;
}

static void check_sum(struct store *store) {
    struct store_query query = scene_query();
    CHECK_INT(scene_sum(store, &query), ==, expected_sum);
}

/* A query may be answered by the replica that did not take the insert, and is a moment behind. It
 * never answers too much. */
static void wait_for_sum(struct store *store) {
    struct store_query query = scene_query();
    int64_t sum = scene_sum(store, &query);
    for (int i = 0; i < ATTEMPTS && sum < expected_sum; i++) {
        pause_ms(50);
        sum = scene_sum(store, &query);
    }
    CHECK_INT(sum, ==, expected_sum);
    pause_ms(500); /* the other one, too */
}

TEST(windows_are_spread_over_the_shards_and_queries_see_all) {
    struct store *store = open_cluster();
    struct store_query query = scene_query();
    struct store_merge merge;
    struct sonde_arena arena = {0};
    put_all(store);
    wait_for_sum(store);
    CHECK_INT(store->ops->merge(store, &query, &arena, &merge, NULL), ==, SONDE_OK);
    CHECK_INT(merge.windows, ==, HOSTS);
    CHECK_INT(merge.shards_asked, ==, 2);
    CHECK_INT(merge.shards_answered, ==, 2);
    sonde_arena_finish(&arena);
    store_close(store);
}

TEST(stacks_and_names_are_found_on_whatever_shard_they_are) {
    struct store *store = open_cluster();
    uint64_t frames[] = {10, 11}, ids[] = {1, 2}, frame_ids[] = {10, 11};
    struct store_line line = {"f", "f.c", 1};
    struct store_stack stacks[] = {{"shop", 1, frames, 2}, {"shop", 2, frames, 1}};
    struct store_frame list[] = {{10, "a", "m", 1, 1, 1, &line, 1}, {11, "a", "m", 2, 1, 0, 0, 0}};
    struct store_batch batch = {
        .stacks = stacks, .stack_count = 2, .frames = list, .frame_count = 2};
    struct store_put_result result;
    struct sonde_arena arena = {0};
    struct store_stack *found;
    struct store_frame *known;
    size_t count;
    CHECK_INT(store_put(store, &batch, &result, NULL), ==, SONDE_OK);
    store_close(store);
    store = open_cluster();
    CHECK_INT(store->ops->stacks(store, "shop", ids, 2, NULL, &arena, &found, &count, NULL), ==, 0);
    CHECK_INT(count, ==, 2);
    CHECK_INT(store->ops->frames(store, frame_ids, 2, NULL, &arena, &known, &count, NULL), ==, 0);
    CHECK_INT(count, ==, 2);
    struct sonde_diag diag = {0};
    if (store->ops->unnamed(store, 9, &arena, &known, &count, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    CHECK_INT(count, ==, 1);
    CHECK_INT(known[0].id, ==, 11);
    sonde_arena_finish(&arena);
    store_close(store);
}

TEST(a_replica_that_is_killed_loses_and_doubles_nothing) {
    struct store *store = open_cluster();
    for (int victim = 0; victim < SERVERS; victim += 3) {
        put_all(store);
        wait_for_sum(store);
        for (int i = 0; i < 30; i++) {
            if (i == 10)
                server_kill(&servers[victim]);
            check_sum(store);
        }
        put_all(store);
        wait_for_sum(store);
        server_start(&servers[victim]);
        put_all(store);
        wait_for_sum(store);
    }
    store_close(store);
}

TEST(a_repetition_beyond_the_servers_memory_is_recognized) {
    struct store *store = open_cluster();
    struct store_window first = window_of(0);
    CHECK_INT(scene_put(store, &first, 1).stored, ==, 1);
    for (int i = 0; i < 150; i++) {
        struct store_window other = window_of(0);
        CHECK_INT(scene_put(store, &other, 1).stored, ==, 1);
    }
    expected_sum += 151 * 42;
    CHECK_INT(scene_put(store, &first, 1).duplicates, ==, 1);
    store_close(store);
    store = open_cluster(); /* as another process would */
    CHECK_INT(scene_put(store, &first, 1).duplicates, ==, 1);
    wait_for_sum(store);
    store_close(store);
}

TEST(rollups_are_made_by_each_shard) {
    struct store *store = open_cluster();
    struct sonde_diag diag = {0};
    if (store->ops->maintain(store, SCENE_TIME + 86400, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    wait_for_sum(store);
    put_all(store);
    wait_for_sum(store);
    store_close(store);
}

TEST(a_shard_that_is_down_is_an_error_and_never_left_out) {
    struct store *store = open_cluster();
    struct store_query query = scene_query();
    struct store_merge merge;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    struct store_window windows[HOSTS];
    struct store_batch batch = {.windows = windows, .window_count = HOSTS};
    struct store_put_result result;
    for (int i = 0; i < HOSTS; i++)
        windows[i] = window_of(i);
    server_kill(&servers[2]);
    server_kill(&servers[3]);
    CHECK_INT(store->ops->merge(store, &query, &arena, &merge, &diag), ==, SONDE_UNAVAILABLE);
    CHECK_INT(store_put(store, &batch, &result, &diag), ==, SONDE_UNAVAILABLE);
    server_start(&servers[2]);
    server_start(&servers[3]);
    for (int i = 0; i < ATTEMPTS && store_put(store, &batch, &result, &diag) != SONDE_OK; i++)
        pause_ms(100);
    CHECK_INT(result.stored + result.duplicates, ==, HOSTS);
    CHECK_INT(result.duplicates, >, 0); /* what the other shard had */
    CHECK_INT(result.duplicates, <, HOSTS);
    expected_sum += HOSTS * 42;
    wait_for_sum(store);
    sonde_arena_finish(&arena);
    store_close(store);
}
