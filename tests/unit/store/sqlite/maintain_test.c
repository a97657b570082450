/* SPDX-License-Identifier: Apache-2.0
 *
 * Retention by age and by size, and what goes with the hours that are deleted. */
#include "service/store/selector/selector.h"
#include "service/store/sqlite/db/db.h"
#include "tests/unit/check.h"
#include "tests/unit/store/sqlite/scene.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct scene scene;

static struct store_info info(void) {
    struct store_info result;
    CHECK_INT(scene.store->ops->info(scene.store, NULL, &result, NULL), ==, SONDE_OK);
    return result;
}

/* A window of one stack, with its definition and its frames. */
static void put_stack(uint64_t stack, int64_t begin, const char *host) {
    struct row row = {stack, "main", 1000000};
    const uint64_t frames[] = {stack * 10, 5};
    char name[32];
    snprintf(name, sizeof name, "function_%d", (int)stack);
    struct store_line line = {name, "a.c", 1};
    struct store_frame definitions[] = {{.id = stack * 10,
                                         .build_id = "ab",
                                         .module = "m",
                                         .address = stack,
                                         .version = 1,
                                         .lines = &line,
                                         .line_count = 1},
                                        {.id = 5, .build_id = "cd", .module = "n"}};
    struct store_stack definition = {"redis", stack, frames, 2};
    struct store_batch batch = {
        .stacks = &definition, .stack_count = 1, .frames = definitions, .frame_count = 2};
    struct store_put_result result;
    CHECK_INT(store_put(scene.store, &batch, &result, NULL), ==, SONDE_OK);
    scene_put(
        &scene,
        &(struct spec){.seq = stack, .begin = begin, .host = host, .rows = &row, .row_count = 1});
}

static bool has_stack(uint64_t id) {
    struct store_stack *found;
    size_t count;
    CHECK_INT(scene.store->ops->stacks(scene.store, "redis", &id, 1, NULL, &scene.arena, &found,
                                       &count, NULL),
              ==, SONDE_OK);
    return count == 1 && found->frames[0] == id * 10 && found->frames[1] == 5;
}

TEST(hours_that_are_too_old_are_deleted_with_all_that_only_they_used) {
    scene_open(&scene);
    scene_reopen(&scene, &(struct store_limits){.keep_s = 7200});
    put_stack(1, HOUR, "old");
    put_stack(2, HOUR + 3600, "new");
    put_stack(3, HOUR + 10000, "new"); /* of an hour that is not finished */
    scene_maintain(&scene, HOUR + 3600 * 2 + 3599);
    struct store_info before = info();
    CHECK_INT(before.windows, ==, 3);
    CHECK_INT(before.stacks, ==, 3);
    CHECK_INT(before.frames, ==, 4);
    CHECK_INT(before.hosts, ==, 2);
    CHECK_INT(before.first_unix_s, ==, HOUR);
    CHECK_INT(before.last_unix_s, ==, HOUR + 10010);
    CHECK_INT(before.samples, ==, 3);
    CHECK_INT(before.dropped, ==, 6);
    CHECK(has_stack(1));
    scene_maintain(&scene, HOUR + 3600 * 3);
    struct store_info after = info();
    CHECK_INT(after.windows, ==, 2);
    CHECK_INT(after.stacks, ==, 2);
    CHECK_INT(after.frames, ==, 3);
    CHECK_INT(after.hosts, ==, 1);
    CHECK_INT(after.first_unix_s, ==, HOUR + 3600);
    CHECK(!has_stack(1) && has_stack(2) && has_stack(3));
    struct store_query query = scene_query(HOUR, HOUR + 86400);
    struct store_merge merge = scene_merge(&scene, &query);
    CHECK_INT(scene_total(&merge), ==, 2000000);
    CHECK_INT(scene_value(&merge, 1, ""), ==, 0);
    /* Its numbers may be given again. */
    put_stack(4, HOUR + 10000, "newest");
    CHECK(has_stack(2) && has_stack(3) && has_stack(4));
    merge = scene_merge(&scene, &query);
    CHECK_INT(scene_value(&merge, 4, ""), ==, 1000000);
    /* When everything is too old, nothing is left. */
    scene_maintain(&scene, HOUR + 3600 * 24);
    after = info();
    CHECK_INT(after.windows + after.stacks + after.frames + after.hosts, ==, 0);
    CHECK_INT(after.first_unix_s, ==, 0);
    CHECK_INT(scene_merge(&scene, &query).row_count, ==, 0);
    scene_close(&scene);
}

/* ---- By labels ---- */

static struct selector *select_by(const char *text) {
    struct selector *selector;
    CHECK_INT(selector_parse(text, NULL, NULL, &selector, NULL), ==, SONDE_OK);
    return selector;
}

static int64_t sum_of(const char *selector) {
    struct store_merge merge = scene_select(&scene, HOUR - 86400, HOUR + 86400 * 30, selector);
    return scene_total(&merge);
}

static void put_version(const char *service, const char *version, uint64_t seq, int64_t begin) {
    struct row rows[] = {{1, "main", 1000000}, {2, "io", 2000000}};
    scene_put(&scene, &(struct spec){.service = service,
                                     .version = version,
                                     .seq = seq,
                                     .begin = begin,
                                     .rows = rows,
                                     .row_count = 2});
}

/* Windows of web in two versions in each of two hours, and of two other services. */
static void put_versions(void) {
    for (uint64_t i = 0; i < 2; i++) {
        int64_t begin = HOUR + 3600 * (int64_t)i;
        put_version("web", "1", 10 * i + 1, begin);
        put_version("web", "2", 10 * i + 2, begin + 10);
        put_version("batch-1", "1", 10 * i + 3, begin);
        put_version("db", "1", 10 * i + 4, begin);
    }
}

TEST(windows_are_kept_by_the_first_rule_that_matches_their_labels) {
    struct selector *old = select_by("version = '2'"), *batch = select_by("{service=~\"batch.*\"}"),
                    *db = select_by("service = 'db'");
    const struct store_keep keeps[] = {{old, 7200}, {batch, 3600}, {db, 0}};
    scene_open(&scene);
    scene_reopen(&scene,
                 &(struct store_limits){.keep_s = 5 * 3600, .keeps = keeps, .keep_count = 3});
    put_versions();
    const struct store_total total = {.source = 9,
                                      .seq = 1,
                                      .host = "a",
                                      .begin_unix_s = HOUR,
                                      .length_s = 10,
                                      .process = "x",
                                      .thread = "",
                                      .cpu_ns = 5};
    struct store_put_result result;
    CHECK_INT(store_put(scene.store, &(struct store_batch){.totals = &total, .total_count = 1},
                        &result, NULL),
              ==, SONDE_OK);
    scene_maintain(&scene, HOUR + 3600 * 2); /* the first hour of batch is over */
    CHECK_INT(sum_of("service = 'batch-1'"), ==, 3000000);
    CHECK_INT(sum_of("service = 'web'"), ==, 12000000);
    scene_maintain(&scene, HOUR + 3600 * 3); /* and of version 2, and the second one of batch */
    CHECK_INT(sum_of("service = 'batch-1'"), ==, 0);
    CHECK_INT(sum_of("service = 'web'"), ==, 9000000);
    CHECK_INT(sum_of("service = 'web' AND version = '1'"), ==, 6000000);
    CHECK_INT(sum_of("service = 'web' AND version = '2' AND thread = 'io'"), ==, 2000000);
    struct store_query query = scene_query(HOUR, HOUR + 7200);
    query.service = "web"; /* the hours' sums are right, too */
    struct store_merge merge = scene_merge(&scene, &query);
    CHECK_INT(merge.windows, ==, 3);
    CHECK_INT(scene_value(&merge, 2, "io"), ==, 6000000);
    CHECK_INT(info().windows, ==, 5);
    scene_maintain(&scene, HOUR + 3600 * 24);
    CHECK_INT(sum_of("service = 'web'"), ==, 0);
    CHECK_INT(sum_of("service = 'db'"), ==, 6000000);
    CHECK_INT(info().windows, ==, 2);
    struct store_host *hosts;
    size_t host_count;
    query = scene_query(HOUR, HOUR + 7200);
    CHECK_INT(scene.store->ops->hosts(scene.store, &query, &scene.arena, &hosts, &host_count, NULL),
              ==, SONDE_OK);
    CHECK_INT(host_count, ==, 0); /* totals have the time without a selector */
    scene_close(&scene);
    selector_destroy(old);
    selector_destroy(batch);
    selector_destroy(db);
}

TEST(a_rule_that_is_new_deletes_what_was_recorded_before) {
    struct selector *web = select_by("service = 'web'");
    const struct store_keep keep = {web, 3600};
    scene_open(&scene);
    put_versions();
    scene_maintain(&scene, HOUR + 3600 * 24);
    CHECK_INT(sum_of("service = 'web'"), ==, 12000000);
    scene_reopen(&scene, &(struct store_limits){.keeps = &keep, .keep_count = 1});
    scene_maintain(&scene, HOUR + 3600 * 24);
    CHECK_INT(sum_of("service = 'web'"), ==, 0);
    CHECK_INT(sum_of(""), ==, 12000000);
    scene_close(&scene);
    selector_destroy(web);
}

static uint64_t windows_in(int64_t hour) {
    struct store_query query = scene_query(hour, hour + 3600);
    query.service = "web";
    return scene_merge(&scene, &query).windows;
}

/* An hour that is not at a limit is not looked at, so that damage in it is not seen; once a day all
 * are. */
TEST(only_hours_that_have_reached_a_limit_are_looked_at) {
    struct selector *web = select_by("service = 'web'");
    const struct store_keep keep = {web, 3600};
    sqlite3 *handle;
    scene_open(&scene);
    scene_reopen(&scene, &(struct store_limits){.keeps = &keep, .keep_count = 1});
    put_versions();
    scene_maintain(&scene, HOUR + 3600 * 4);
    CHECK_INT(sum_of("service = 'web'"), ==, 0);
    CHECK_INT(sqlite3_open(scene.path, &handle), ==, SQLITE_OK);
    CHECK_INT(sqlite3_exec(handle, "UPDATE rollup SET tally = x'00'", NULL, NULL, NULL), ==, 0);
    sqlite3_close(handle);
    put_version("web", "1", 1000, HOUR + 3600 * 4);
    scene_maintain(&scene, HOUR + 3600 * 5 + 100);
    CHECK_INT(windows_in(HOUR + 3600 * 4), ==, 1);
    scene_maintain(&scene, HOUR + 3600 * 6);
    CHECK_INT(windows_in(HOUR + 3600 * 4), ==, 0);
    struct sonde_diag diag = {0};
    CHECK(scene.store->ops->maintain(scene.store, HOUR + 3600 * 29, &diag) != SONDE_OK);
    CHECK(strstr(diag.text, "damaged"));
    scene_close(&scene);
    selector_destroy(web);
}

TEST(old_deliveries_are_known_for_a_day_longer) {
    scene_open(&scene);
    scene_reopen(&scene, &(struct store_limits){.keep_s = 3600});
    scene_put(&scene, &(struct spec){.seq = 1, .begin = HOUR});
    scene_maintain(&scene, HOUR + 3600 * 24);
    CHECK_INT(scene_put(&scene, &(struct spec){.seq = 1, .begin = HOUR}).duplicates, ==, 1);
    scene_maintain(&scene, HOUR + 3600 * 30);
    CHECK_INT(scene_put(&scene, &(struct spec){.seq = 1, .begin = HOUR}).stored, ==, 1);
    scene_close(&scene);
}

/* Many different stacks, so that an hour takes some hundred KB. */
static void fill_hour(int hour) {
    static struct row rows[4000];
    for (int i = 0; i < 12; i++) {
        for (int row = 0; row < 4000; row++)
            rows[row] = (struct row){(uint64_t)(hour * 4000 + row) * 2654435761u, "main",
                                     1000000 + row * 77777 % 4099};
        scene_put(&scene, &(struct spec){.seq = (uint64_t)(hour * 100 + i),
                                         .begin = HOUR + 3600 * hour + i * 300,
                                         .rows = rows,
                                         .row_count = 4000});
    }
}

TEST(the_oldest_hours_are_deleted_when_there_is_too_much) {
    scene_open(&scene);
    const uint64_t limit = 1 << 20;
    scene_reopen(&scene, &(struct store_limits){.max_bytes = limit});
    for (int hour = 0; hour < 6; hour++) {
        fill_hour(hour);
        scene_maintain(&scene, HOUR + 3600 * (hour + 1) + 1000);
    }
    scene_maintain(&scene, HOUR + 3600 * 14);
    struct store_info after = info();
    CHECK_INT(after.size_limit_bytes, ==, limit);
    struct store_query query = scene_query(HOUR, HOUR + 86400);
    struct store_merge merge = scene_merge(&scene, &query);
    CHECK_INT(merge.windows, >, 0);
    CHECK_INT(merge.windows, <, 72);
    CHECK_INT(merge.windows, ==, after.windows);
    CHECK_INT(after.last_unix_s, ==, HOUR + 3600 * 5 + 3310);
    scene_reopen(&scene, &(struct store_limits){.max_bytes = limit}); /* empties the log */
    CHECK_INT(info().size_bytes, <=, limit);
    scene_close(&scene);
}

TEST(many_label_sets_are_kept_apart) {
    enum { SETS = 2000 };
    static struct store_window windows[SETS];
    static struct store_label labels[SETS];
    static char values[SETS][12];
    const char *thread = "main";
    const uint64_t stack = 7;
    const uint8_t index = 0;
    const int64_t value = 1000;
    scene_open(&scene);
    for (int i = 0; i < SETS; i++) {
        snprintf(values[i], sizeof values[i], "%d", i);
        labels[i] = (struct store_label){"set", values[i]};
        windows[i] = (struct store_window){.source = 1,
                                           .seq = (uint64_t)i,
                                           .event = "on-cpu",
                                           .service = "s",
                                           .host = "h",
                                           .instance = values[i],
                                           .clock = "",
                                           .begin_unix_s = HOUR,
                                           .length_s = 10,
                                           .weight = 1,
                                           .labels = &labels[i],
                                           .label_count = 1,
                                           .threads = &thread,
                                           .thread_count = 1,
                                           .stack = &stack,
                                           .thread = &index,
                                           .value = &value,
                                           .row_count = 1};
    }
    struct store_batch batch = {.windows = windows, .window_count = SETS};
    struct store_put_result result;
    CHECK_INT(store_put(scene.store, &batch, &result, NULL), ==, SONDE_OK);
    CHECK_INT(result.stored, ==, SETS);
    for (int i = 0; i < 2; i++) {
        struct store_merge merge =
            scene_select(&scene, HOUR, HOUR + 3600, "set = '17' OR set >= '1990'");
        CHECK_INT(merge.windows, ==, 11);
        CHECK_INT(scene_total(&merge), ==, 11000);
        scene_maintain(&scene, HOUR + 8000);
    }
    scene_close(&scene);
}

static _Atomic bool is_done;
static _Atomic uint64_t acknowledged;

/* Asks until the writer is done; every answer must have what was acknowledged before. */
static void *ask(void *unused) {
    const char *failure = NULL;
    while (!is_done && !failure) {
        struct sonde_arena arena = {0};
        struct store_query query = scene_query(HOUR, HOUR + 86400);
        struct store_merge merge;
        uint64_t before = acknowledged;
        if (scene.store->ops->merge(scene.store, &query, &arena, &merge, NULL))
            failure = "a query failed";
        else if (merge.windows < before || scene_total(&merge) != (int64_t)merge.windows * 1000000)
            failure = "a query missed a window";
        sonde_arena_finish(&arena);
    }
    return (void *)(uintptr_t)failure;
}

TEST(queries_see_what_was_acknowledged_while_others_put_and_maintain) {
    pthread_t threads[6];
    scene_open(&scene);
    for (int i = 0; i < 6; i++)
        CHECK(pthread_create(&threads[i], NULL, ask, NULL) == 0);
    for (uint64_t seq = 0; seq < 60; seq++) {
        scene_put(&scene, &(struct spec){.seq = seq, .begin = HOUR + 100 * (int64_t)seq});
        acknowledged = seq + 1;
        if (seq % 20 == 19)
            scene_maintain(&scene, HOUR + 100 * (int64_t)seq + 200);
    }
    is_done = true;
    for (int i = 0; i < 6; i++) {
        void *failure;
        CHECK(pthread_join(threads[i], &failure) == 0);
        CHECK(failure == NULL);
    }
    scene_close(&scene);
}
