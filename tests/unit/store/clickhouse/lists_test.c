/* SPDX-License-Identifier: Apache-2.0
 *
 * Series, totals, lists, retention and rollups, on the server of clickhouse_test.c. */
#include "service/store/selector/selector.h"
#include "tests/unit/check.h"
#include "tests/unit/store/clickhouse/scene.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

static struct selector *parse(const char *text) {
    struct selector *selector = NULL;
    struct sonde_diag diag = {0};
    if (selector_parse(text, NULL, NULL, &selector, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s: %s", text, diag.text);
    return selector;
}

TEST(series_sum_by_group_and_step) {
    struct store *store = scene_open("series", NULL);
    struct store_window windows[] = {scene_window(0), scene_window(1), scene_window(4)};
    const char *groups[] = {"host", "thread"};
    struct store_series_query query = {.query = scene_query(), .step_s = 30, .limit = 10};
    struct store_series_result result;
    struct sonde_arena arena = {0};
    windows[1].host = "host-2";
    windows[1].weight = 10;
    scene_put(store, windows, 3);
    CHECK_INT(store->ops->series(store, &query, &arena, &result, NULL), ==, SONDE_OK);
    CHECK_INT(result.series_count, ==, 1);
    CHECK_INT(result.series[0].point_count, ==, 2);
    CHECK_INT(result.series[0].points[0].time_unix_s, ==, SCENE_TIME);
    CHECK_INT(result.series[0].points[0].value, ==, 42 + 420);
    CHECK_INT(result.series[0].points[1].time_unix_s, ==, SCENE_TIME + 30);
    CHECK_INT(result.completeness.windows, ==, 3);
    query.group_by = groups;
    query.group_count = 1;
    CHECK_INT(store->ops->series(store, &query, &arena, &result, NULL), ==, SONDE_OK);
    CHECK_INT(result.series_count, ==, 2);
    CHECK_STR(result.series[0].values[0], "host-2"); /* the largest first */
    CHECK_INT(result.series[0].sum, ==, 420);
    CHECK_INT(result.series[1].point_count, ==, 2);
    query.group_count = 2;
    query.limit = 3;
    CHECK_INT(store->ops->series(store, &query, &arena, &result, NULL), ==, SONDE_OK);
    CHECK_INT(result.series_count, ==, 3);
    CHECK_INT(result.omitted, ==, 1);
    CHECK_STR(result.series[0].values[1], "main");
    CHECK_INT(result.series[0].sum, ==, 300);
    query.step_s = 0;
    CHECK_INT(store->ops->series(store, &query, &arena, &result, NULL), ==, SONDE_INVALID_ARGUMENT);
    sonde_arena_finish(&arena);
    store_close(store);
}

TEST(a_series_of_chosen_stacks_counts_no_others) {
    static const uint64_t second[] = {2}, none[] = {77};
    struct store *store = scene_open("chosen", NULL);
    struct store_window windows[] = {scene_window(0), scene_window(1), scene_window(4)};
    const char *groups[] = {"thread"};
    struct store_series_query query = {.query = scene_query(), .step_s = 30, .limit = 10};
    struct store_series_result result;
    struct sonde_arena arena = {0};
    windows[1].weight = 10;
    scene_put(store, windows, 3);
    query.stacks = second;
    query.stack_count = 1;
    for (int round = 0; round < 2; round++) {
        CHECK_INT(store->ops->series(store, &query, &arena, &result, NULL), ==, SONDE_OK);
        CHECK_INT(result.series_count, ==, 1);
        CHECK_INT(result.series[0].point_count, ==, 2);
        CHECK_INT(result.series[0].points[0].value, ==, round ? 0 : 12 + 120);
        CHECK_INT(result.series[0].points[1].value, ==, round ? 0 : 12);
        query.stacks = none;
        query.stack_count = 0;
    }
    query.stacks = second;
    query.stack_count = 1;
    query.group_by = groups;
    query.group_count = 1;
    CHECK_INT(store->ops->series(store, &query, &arena, &result, NULL), ==, SONDE_OK);
    CHECK_INT(result.series_count, ==, 2);
    CHECK_STR(result.series[0].values[0], "io");
    CHECK_INT(result.series[0].sum, ==, 12 + 120 + 12);
    CHECK_INT(result.series[1].sum, ==, 0);
    sonde_arena_finish(&arena);
    store_close(store);
}

TEST(series_of_a_state_take_the_last_window_of_each_step) {
    struct store *store = scene_open("stateseries", NULL);
    struct store_window windows[] = {scene_window(0), scene_window(1), scene_window(3)};
    struct store_series_query query = {.query = scene_query(), .step_s = 30, .limit = 10};
    struct store_series_result result;
    struct sonde_arena arena = {0};
    for (int i = 0; i < 3; i++)
        windows[i].event = "mem-inuse";
    windows[1].weight = 10;
    scene_put(store, windows, 3);
    query.query.event = "mem-inuse";
    CHECK_INT(store->ops->series(store, &query, &arena, &result, NULL), ==, SONDE_OK);
    CHECK_INT(result.series_count, ==, 1);
    CHECK_INT(result.series[0].point_count, ==, 2);
    CHECK_INT(result.series[0].points[0].value, ==, 420);
    CHECK_INT(result.series[0].points[1].value, ==, 42);
    sonde_arena_finish(&arena);
    store_close(store);
}

static void put_totals(struct store *store, const struct store_total *totals, size_t count) {
    struct store_batch batch = {.totals = totals, .total_count = count};
    struct store_put_result result;
    CHECK_INT(store_put(store, &batch, &result, NULL), ==, SONDE_OK);
}

TEST(totals_are_of_one_host_and_stored_once) {
    struct store *store = scene_open("totals", NULL);
    const struct store_total totals[] = {
        {1, 0, 1, "a", SCENE_TIME, 10, "redis", "", 70},
        {1, 0, 1, "a", SCENE_TIME, 10, "redis", "io'", 5},
        {1, 1, 1, "a", SCENE_TIME + 10, 10, "redis", "", 30},
        {2, 0, 1, "b", SCENE_TIME, 10, "nginx", "", 1},
    };
    struct store_query query = scene_query();
    struct store_total_row *rows;
    struct store_merge merge;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    size_t count;
    query.service = NULL;
    put_totals(store, totals, 3);
    put_totals(store, totals, 4);
    CHECK_INT(store->ops->totals(store, &query, &arena, &rows, &count, &merge, &diag), ==,
              SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "host = 'NAME'"));
    struct selector *host = parse("host = 'a'"), *thread = parse("thread = 'io\\''");
    query.selector = host;
    CHECK_INT(store->ops->totals(store, &query, &arena, &rows, &count, &merge, NULL), ==, SONDE_OK);
    CHECK_INT(count, ==, 2);
    CHECK_INT(rows[0].cpu_ns + rows[1].cpu_ns, ==, 105);
    CHECK_STR(rows[0].process, "redis");
    CHECK_INT(merge.windows, ==, 2);
    CHECK_INT(merge.windows_expected, ==, 2);
    CHECK_INT(merge.wall_ns, ==, 20000000000);
    CHECK_INT(merge.first_unix_s, ==, SCENE_TIME);
    CHECK_INT(merge.last_unix_s, ==, SCENE_TIME + 20);
    query.selector = thread;
    CHECK_INT(store->ops->totals(store, &query, &arena, &rows, &count, &merge, NULL), ==, SONDE_OK);
    CHECK_INT(count, ==, 1);
    CHECK_INT(rows[0].cpu_ns, ==, 5);
    selector_destroy(host);
    selector_destroy(thread);
    sonde_arena_finish(&arena);
    store_close(store);
}

TEST(processes_that_stand_for_others_are_counted_with_their_variance) {
    struct store *store = scene_open("drawn", NULL);
    struct store_window windows[4];
    struct store_query query = scene_query();
    struct store_merge merge;
    struct sonde_arena arena = {0};
    for (uint64_t i = 0; i < 4; i++) {
        windows[i] = scene_window(i);
        windows[i].pid = 100 + (uint32_t)i / 2;
        windows[i].weight = i < 2 ? 4 : 1;
    }
    scene_put(store, windows, 4);
    CHECK_INT(store->ops->merge(store, &query, &arena, &merge, NULL), ==, SONDE_OK);
    CHECK_INT(merge.windows, ==, 4);
    CHECK_INT(merge.drawn, ==, 1);
    CHECK_NEAR(merge.drawn_for, 4, 0.001);
    CHECK_NEAR(merge.drawn_sum, 2 * 42 * 4, 0.001);
    CHECK_NEAR(merge.drawn_variance, 336.0 * 336 * 0.75, 0.01);
    sonde_arena_finish(&arena);
    store_close(store);
}

TEST(hosts_have_the_times_in_which_they_recorded) {
    struct store *store = scene_open("hosts", NULL);
    const struct store_total totals[] = {
        {1, 0, 1, "a", SCENE_TIME, 10, "redis", "", 70},
        {1, 2, 1, "a", SCENE_TIME + 50, 10, "redis", "", 30},
        {1, 1, 1, "a", SCENE_TIME + 10, 10, "redis", "", 30},
        {2, 0, 1, "b", SCENE_TIME + 100, 10, "nginx", "", 1},
        {3, 0, 1, "b", SCENE_TIME + 114, 10, "nginx", "", 1}, /* four seconds are no pause */
        {3, 1, 1, "c", SCENE_TIME - 10, 10, "nginx", "", 1},  /* before the range */
    };
    const struct store_query query = {.from_unix_s = SCENE_TIME, .until_unix_s = SCENE_TIME + 3600};
    struct store_host *hosts;
    struct sonde_arena arena = {0};
    size_t count;
    put_totals(store, totals, 6);
    CHECK_INT(store->ops->hosts(store, &query, &arena, &hosts, &count, NULL), ==, SONDE_OK);
    CHECK_INT(count, ==, 2);
    CHECK_STR(hosts[0].name, "a");
    CHECK_INT(hosts[0].span_count, ==, 2);
    CHECK_INT(hosts[0].spans[0].begin_unix_s, ==, SCENE_TIME);
    CHECK_INT(hosts[0].spans[0].end_unix_s, ==, SCENE_TIME + 20);
    CHECK_INT(hosts[0].spans[1].begin_unix_s, ==, SCENE_TIME + 50);
    CHECK_INT(hosts[0].spans[1].end_unix_s, ==, SCENE_TIME + 60);
    CHECK_INT(hosts[1].span_count, ==, 1);
    CHECK_INT(hosts[1].spans[0].end_unix_s, ==, SCENE_TIME + 124);
    sonde_arena_finish(&arena);
    store_close(store);
}

TEST(services_labels_and_info_describe_what_is_stored) {
    struct store *store = scene_open("lists", NULL);
    struct store_info info;
    CHECK_INT(store->ops->info(store, NULL, &info, NULL), ==, SONDE_OK);
    CHECK_INT(info.first_unix_s, ==, 0);
    CHECK_INT(info.windows, ==, 0);
    struct store_window windows[] = {scene_window(0), scene_window(1), scene_window(2)};
    windows[1].event = "off-cpu";
    windows[2].host = "host-2";
    windows[2].source = 2;
    scene_put(store, windows, 3);
    struct store_query query = scene_query();
    struct sonde_arena arena = {0};
    struct store_service *services;
    const char **texts;
    size_t count;
    bool is_cut;
    query.service = NULL;
    CHECK_INT(store->ops->services(store, &query, &arena, &services, &count, NULL), ==, SONDE_OK);
    CHECK_INT(count, ==, 1);
    CHECK_STR(services[0].name, "shop");
    CHECK_INT(services[0].event_count, ==, 2);
    CHECK_STR(services[0].events[1], "on-cpu");
    CHECK_INT(services[0].hosts, ==, 2);
    CHECK_INT(services[0].processes, ==, 2);
    CHECK_INT(services[0].first_unix_s, ==, SCENE_TIME);
    CHECK_INT(services[0].last_unix_s, ==, SCENE_TIME + 30);
    CHECK_INT(services[0].on_cpu_ns, ==, 84);
    CHECK_INT(store->ops->labels(store, &query, NULL, 3, &arena, &texts, &count, &is_cut, NULL), ==,
              SONDE_OK);
    CHECK_INT(count, ==, 3);
    CHECK(is_cut);
    CHECK_STR(texts[0], "event");
    struct selector *io = parse("thread = 'io'");
    query.selector = io;
    CHECK_INT(store->ops->labels(store, &query, "thread", 9, &arena, &texts, &count, &is_cut, NULL),
              ==, SONDE_OK);
    CHECK_INT(count, ==, 1);
    CHECK_STR(texts[0], "io");
    CHECK_INT(store->ops->labels(store, &query, "pid", 9, &arena, &texts, &count, &is_cut, NULL),
              ==, SONDE_OK);
    CHECK_INT(count, ==, 1);
    CHECK_STR(texts[0], "42");
    CHECK(!is_cut);
    CHECK_INT(store->ops->labels(store, &query, "pod", 9, &arena, &texts, &count, &is_cut, NULL),
              ==, SONDE_OK);
    CHECK_STR(texts[0], "a");
    CHECK_INT(store->ops->info(store, NULL, &info, NULL), ==, SONDE_OK);
    CHECK_INT(info.first_unix_s, ==, SCENE_TIME);
    CHECK_INT(info.last_unix_s, ==, SCENE_TIME + 30);
    CHECK_INT(info.windows, ==, 3);
    CHECK_INT(info.samples, ==, 9);
    CHECK_INT(info.hosts, ==, 2);
    CHECK_INT(info.size_bytes, >, 1000);
    CHECK_STR(info.trouble, "");
    CHECK(strstr(info.place, "/lists"));
    selector_destroy(io);
    sonde_arena_finish(&arena);
    store_close(store);
}

TEST(maintain_drops_days_that_are_too_old_or_too_much) {
    struct store_limits limits = {.keep_s = 2 * 86400};
    struct store *store = scene_open("retention", &limits);
    struct store_window windows[4];
    struct store_query query = {
        .service = "shop", .event = "on-cpu", .until_unix_s = SCENE_TIME + 10 * 86400};
    for (int i = 0; i < 4; i++) {
        windows[i] = scene_window((uint64_t)i);
        windows[i].begin_unix_s = SCENE_TIME + i * 86400;
    }
    scene_put(store, windows, 4);
    int64_t now = SCENE_TIME + 3 * 86400;
    CHECK_INT(store->ops->maintain(store, now, NULL), ==, SONDE_OK);
    CHECK_INT(scene_sum(store, &query), ==, 3 * 42);
    CHECK_INT(store->ops->maintain(store, now + 86400, NULL), ==, SONDE_OK);
    CHECK_INT(scene_sum(store, &query), ==, 2 * 42);
    store_close(store);
    limits = (struct store_limits){.max_bytes = 1};
    store = scene_open("retention", &limits);
    CHECK_INT(store->ops->maintain(store, now, NULL), ==, SONDE_OK);
    CHECK_INT(scene_sum(store, &query), ==, 42); /* the last day stays */
    store_close(store);
}

struct seen {
    int64_t sum, wall_ns, covered_ns;
    uint64_t windows, expected, samples, rows_read, period_ns;
    size_t rows;
    bool is_rolled;
};

static struct seen look(struct store *store, const char *service) {
    struct store_query query = scene_query();
    struct store_merge merge;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    query.service = service;
    if (store->ops->merge(store, &query, &arena, &merge, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    struct seen seen = {.wall_ns = merge.wall_ns,
                        .covered_ns = merge.covered_ns,
                        .windows = merge.windows,
                        .expected = merge.windows_expected,
                        .samples = merge.samples,
                        .rows_read = merge.rows_read,
                        .period_ns = merge.period_ns,
                        .rows = merge.row_count,
                        .is_rolled = strstr(merge.statement, "rollup_h") != NULL};
    for (size_t i = 0; i < merge.row_count; i++)
        seen.sum += merge.rows[i].value;
    CHECK_INT(merge.thread_count, ==, 2);
    CHECK_STR(merge.threads[merge.rows[0].thread], merge.rows[0].stack == 1 ? "main" : "io");
    sonde_arena_finish(&arena);
    return seen;
}

/* Until the server has deleted: it does so in the background. */
static void await_sum(struct store *store, const struct store_query *query, int64_t now,
                      int64_t sum) {
    for (int i = 0; i < 600 && scene_sum(store, query) != sum; i++) {
        CHECK_INT(store->ops->maintain(store, now, NULL), ==, SONDE_OK);
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    CHECK_INT(scene_sum(store, query), ==, sum);
}

/* Four days of windows of shop in version 1 and 2, and of db. */
static void put_versions(struct store *store) {
    static const struct store_label labels[][1] = {{{"version", "1"}}, {{"version", "2"}}};
    struct store_window windows[12];
    for (int i = 0; i < 12; i++) {
        windows[i] = scene_window((uint64_t)i);
        windows[i].begin_unix_s = SCENE_TIME + i / 3 * 86400;
        windows[i].service = i % 3 == 2 ? "db" : "shop";
        windows[i].labels = labels[i % 3 == 1];
        windows[i].label_count = 1;
    }
    scene_put(store, windows, 12);
}

TEST(windows_are_kept_by_the_first_rule_that_matches_their_labels) {
    struct selector *old, *db;
    CHECK_INT(selector_parse("version = '2'", NULL, NULL, &old, NULL), ==, SONDE_OK);
    CHECK_INT(selector_parse("{service=~\"d.\"}", NULL, NULL, &db, NULL), ==, SONDE_OK);
    const struct store_keep keeps[] = {{old, 86400}, {db, 0}};
    struct store_limits limits = {.keep_s = 3 * 86400, .keeps = keeps, .keep_count = 2};
    struct store *store = scene_open("rules", &limits);
    struct store_query query = {
        .service = "shop", .event = "on-cpu", .until_unix_s = SCENE_TIME + 10 * 86400};
    struct store_query of_db = query;
    of_db.service = "db";
    of_db.from_unix_s = SCENE_TIME / 3600 * 3600;
    put_versions(store);
    int64_t now = SCENE_TIME + 3 * 86400;
    await_sum(store, &query, now, 6 * 42); /* version 2 of the first two days is gone */
    query.selector = old;
    CHECK_INT(scene_sum(store, &query), ==, 2 * 42);
    query.selector = NULL;
    await_sum(store, &query, now + 86400, 4 * 42); /* and the third, and version 1 of the first */
    await_sum(store, &query, now + 20 * 86400, 0);
    CHECK_INT(scene_sum(store, &of_db), ==, 4 * 42);
    /* The hours are summed again without what is gone. */
    struct store_merge merge;
    struct sonde_arena arena = {0};
    bool is_rolled = false;
    for (int i = 0; i < 600 && !is_rolled; i++) {
        CHECK_INT(store->ops->maintain(store, now + 20 * 86400, NULL), ==, SONDE_OK);
        CHECK_INT(store->ops->merge(store, &of_db, &arena, &merge, NULL), ==, SONDE_OK);
        is_rolled = strstr(merge.statement, "rollup_h") != NULL;
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    CHECK(is_rolled);
    CHECK_INT(merge.windows, ==, 4);
    CHECK_INT(scene_sum(store, &of_db), ==, 4 * 42);
    sonde_arena_finish(&arena);
    selector_destroy(old);
    selector_destroy(db);
    store_close(store);
}

static void check_same(struct seen a, struct seen b) {
    CHECK_INT(a.sum, ==, b.sum);
    CHECK_INT(a.wall_ns, ==, b.wall_ns);
    CHECK_INT(a.covered_ns, ==, b.covered_ns);
    CHECK_INT(a.windows, ==, b.windows);
    CHECK_INT(a.expected, ==, b.expected);
    CHECK_INT(a.samples, ==, b.samples);
    CHECK_INT(a.rows_read, ==, b.rows_read);
    CHECK_INT(a.period_ns, ==, b.period_ns);
    CHECK_INT(a.rows, ==, b.rows);
}

TEST(rollups_answer_like_the_samples_and_notice_late_windows) {
    struct store *store = scene_open("rollup", NULL);
    struct store_window windows[8];
    int64_t now = SCENE_TIME + 3 * 3600 + 600;
    for (int i = 0; i < 8; i++) {
        windows[i] = scene_window((uint64_t)i);
        windows[i].begin_unix_s = SCENE_TIME + (i / 2) * 3600 + (i % 2) * 10;
    }
    windows[1].pid = 43; /* at the same time as the first one */
    windows[1].begin_unix_s = SCENE_TIME;
    windows[3].service = "other";
    scene_put(store, windows, 7);
    struct seen before = look(store, "shop"), all = look(store, NULL);
    CHECK(!before.is_rolled);
    for (int i = 0; i < 3; i++) {
        CHECK_INT(store->ops->maintain(store, now, NULL), ==, SONDE_OK);
        struct seen after = look(store, "shop");
        CHECK(after.is_rolled);
        /* The rollup does not know that a process is missing between two hours. */
        after.expected = before.expected;
        check_same(before, after);
        after = look(store, NULL);
        after.expected = all.expected;
        check_same(all, after);
    }
    windows[7].begin_unix_s = SCENE_TIME + 3600 + 100; /* late, for an hour that is rolled up */
    scene_put(store, windows + 7, 1);
    struct seen late = look(store, "shop");
    CHECK_INT(late.sum, ==, before.sum + 42);
    CHECK(late.is_rolled); /* of the other hours */
    for (int i = 0; i < 3; i++) {
        CHECK_INT(store->ops->maintain(store, now + i * 1000, NULL), ==, SONDE_OK);
        struct seen again = look(store, "shop");
        again.expected = late.expected;
        check_same(late, again);
    }
    store_close(store);
}
