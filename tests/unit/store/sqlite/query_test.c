/* SPDX-License-Identifier: Apache-2.0
 *
 * What was put can be queried: from the chunks of the current minute, from merged chunks and from
 * rollups, with the same answer. */
#include "tests/unit/check.h"
#include "tests/unit/store/sqlite/scene.h"

#include <stdlib.h>
#include <string.h>

static struct scene scene;

TEST(a_window_can_be_queried_at_once) {
    scene_open(&scene);
    struct row rows[] = {{7, "main", 3000000}, {8, "io", 1000000}, {7, "io", 500}};
    struct store_put_result result =
        scene_put(&scene, &(struct spec){.begin = HOUR, .rows = rows, .row_count = 3});
    CHECK_INT(result.stored, ==, 1);
    struct store_query query = scene_query(HOUR, HOUR + 1);
    struct store_merge merge = scene_merge(&scene, &query);
    CHECK_INT(merge.row_count, ==, 3);
    CHECK_INT(scene_value(&merge, 7, "main"), ==, 3000000);
    CHECK_INT(scene_value(&merge, 7, "io"), ==, 500);
    CHECK_INT(scene_value(&merge, 8, "io"), ==, 1000000);
    CHECK_STR(merge.services[merge.rows[0].service], "redis");
    CHECK_INT(merge.windows, ==, 1);
    CHECK_INT(merge.windows_expected, ==, 1);
    CHECK_INT(merge.samples, ==, 3);
    CHECK_INT(merge.dropped, ==, 2);
    CHECK_INT(merge.rows_read, ==, 3);
    CHECK_INT(merge.covered_ns, ==, 10000000000);
    CHECK_INT(merge.wall_ns, ==, 10000000000);
    CHECK_INT(merge.first_unix_s, ==, HOUR);
    CHECK_INT(merge.last_unix_s, ==, HOUR + 10);
    CHECK_INT(merge.period_ns, ==, 1000000);
    scene_close(&scene);
}

TEST(a_window_belongs_to_the_range_of_its_begin) {
    scene_open(&scene);
    scene_put(&scene, &(struct spec){.begin = HOUR + 30});
    const int64_t ranges[][3] = {{HOUR, HOUR + 30, 0},
                                 {HOUR + 30, HOUR + 31, 1},
                                 {HOUR + 31, HOUR + 60, 0},
                                 {-5, INT64_MAX, 1},
                                 {HOUR + 60, HOUR, 0}};
    for (int i = 0; i < 5; i++) {
        struct store_query query = scene_query(ranges[i][0], ranges[i][1]);
        CHECK_INT(scene_merge(&scene, &query).windows, ==, ranges[i][2]);
    }
    scene_close(&scene);
}

TEST(weights_multiply_values) {
    scene_open(&scene);
    scene_put(&scene, &(struct spec){.begin = HOUR, .weight = 2.5});
    struct store_query query = scene_query(HOUR, HOUR + 60);
    struct store_merge merge = scene_merge(&scene, &query);
    CHECK_INT(scene_total(&merge), ==, 2500000);
    scene_close(&scene);
}

/* Of four processes, two were drawn. Before and after the hour has become a rollup. */
TEST(processes_that_stand_for_others_are_counted_with_their_variance) {
    scene_open(&scene);
    for (uint32_t i = 0; i < 4; i++)
        for (int w = 0; w < 2; w++)
            scene_put(&scene, &(struct spec){.begin = HOUR + 10 * w,
                                             .pid = 100 + i,
                                             .seq = 2 * i + (uint64_t)w + 1,
                                             .weight = i < 2 ? 4 : 1});
    for (int i = 0; i < 2; i++) {
        struct store_query query = scene_query(HOUR, HOUR + 3600);
        struct store_merge merge = scene_merge(&scene, &query);
        CHECK_INT(merge.windows, ==, 8);
        CHECK_INT(merge.drawn, ==, 2);
        CHECK_NEAR(merge.drawn_for, 8, 0.001);
        CHECK_NEAR(merge.drawn_sum, 16e6, 1);
        CHECK_NEAR(merge.drawn_variance, 2 * 8e6 * 8e6 * 0.75, 1);
        scene_maintain(&scene, HOUR + 3600 * 3);
    }
    scene_close(&scene);
}

TEST(a_delivery_is_stored_once) {
    scene_open(&scene);
    const uint64_t seqs[] = {5, 6, 8, 7, 5, 6, 7, 8, 0, UINT64_MAX, UINT64_MAX, 4, 4, 9};
    const int new[] = {1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 0, 1, 0, 1};
    int stored = 0;
    for (int i = 0; i < 14; i++) {
        if (i == 6) /* what is stored is known after a restart */
            scene_reopen(&scene, NULL);
        struct store_put_result result =
            scene_put(&scene, &(struct spec){.seq = seqs[i], .begin = HOUR + i});
        CHECK_INT(result.stored, ==, new[i]);
        CHECK_INT(result.duplicates, ==, !new[i]);
        stored += new[i];
    }
    struct store_query query = scene_query(HOUR, HOUR + 60);
    CHECK_INT(scene_merge(&scene, &query).windows, ==, stored);
    scene_close(&scene);
}

/* Both must have the same rows, in any order. */
static void check_same(const struct store_merge *a, const struct store_merge *b) {
    CHECK_INT(a->row_count, ==, b->row_count);
    CHECK_INT(scene_total(a), ==, scene_total(b));
    for (size_t i = 0; i < a->row_count; i++) {
        const char *thread = a->threads[a->rows[i].thread];
        CHECK_INT(scene_value(a, a->rows[i].stack, thread), ==,
                  scene_value(b, a->rows[i].stack, thread));
    }
    CHECK_INT(a->windows, ==, b->windows);
    CHECK_INT(a->windows_expected, ==, b->windows_expected);
    CHECK_INT(a->samples, ==, b->samples);
    CHECK_INT(a->dropped, ==, b->dropped);
    CHECK_INT(a->covered_ns, ==, b->covered_ns);
    CHECK_INT(a->wall_ns, ==, b->wall_ns);
    CHECK_INT(a->first_unix_s, ==, b->first_unix_s);
    CHECK_INT(a->last_unix_s, ==, b->last_unix_s);
}

TEST(the_type_of_a_profile_is_a_label) {
    static const struct {
        const char *selector;
        int64_t total;
    } rows[] = {{"{__profile_type__=~\"process_cpu.*\"}", 1000000},
                {"__profile_type__ = 'process_cpu:cpu:nanoseconds:cpu:nanoseconds'", 1000000},
                {"{__profile_type__!~\".*cpu.*\"}", 0},
                {"__profile_type__ = ''", 0}};
    scene_open(&scene);
    scene_put(&scene, &(struct spec){.begin = HOUR, .seq = 1});
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct store_merge found = scene_select(&scene, HOUR, HOUR + 60, rows[i].selector);
        CHECK_INT(scene_total(&found), ==, rows[i].total);
    }
    scene_close(&scene);
}

TEST(rollups_equal_raw_windows) {
    static const char *const selectors[] = {"",
                                            "env = 'test'",
                                            "version = '2'",
                                            "thread = 'io'",
                                            "version != '1' OR thread = 'main'",
                                            "env = 'other'",
                                            "service = 'redis' AND NOT pid = '101'"};
    scene_open(&scene);
    scene_fill(&scene, "redis", HOUR, 150);
    scene_fill(&scene, "redis", HOUR + 3600 + 1800, 20);
    struct store_merge before[7], aligned = scene_select(&scene, HOUR, HOUR + 3600, "");
    for (int i = 0; i < 7; i++)
        before[i] = scene_select(&scene, HOUR - 7, HOUR + 7205, selectors[i]);
    scene_maintain(&scene, HOUR + 3600 * 3);
    for (int i = 0; i < 7; i++) {
        struct store_merge after = scene_select(&scene, HOUR - 7, HOUR + 7205, selectors[i]);
        check_same(&before[i], &after);
    }
    struct store_merge rolled = scene_select(&scene, HOUR, HOUR + 3600, "");
    check_same(&aligned, &rolled);
    CHECK_INT(rolled.rows_read, <, aligned.rows_read); /* so it is the rollup */
    CHECK_INT(before[5].row_count, ==, 0);
    /* A late window is not missed. */
    scene_put(&scene, &(struct spec){.begin = HOUR + 600, .seq = 99});
    struct store_merge late = scene_select(&scene, HOUR, HOUR + 3600, "");
    CHECK_INT(scene_total(&late), ==, scene_total(&rolled) + 1000000);
    scene_maintain(&scene, HOUR + 3600 * 3);
    rolled = scene_select(&scene, HOUR, HOUR + 3600, "");
    check_same(&late, &rolled);
    scene_close(&scene);
}

TEST(of_a_state_the_last_window_of_each_process_counts) {
    scene_open(&scene);
    for (uint32_t i = 0; i < 6; i++) {
        struct row row = {7, "", 1000 * (i + 1)};
        scene_put(&scene, &(struct spec){.event = "mem-inuse",
                                         .pid = 100 + i % 2,
                                         .seq = i,
                                         .begin = HOUR + 1000 * i,
                                         .rows = &row,
                                         .row_count = 1});
    }
    for (int i = 0; i < 2; i++) {
        struct store_query query = scene_query(HOUR, HOUR + 3600 * 2);
        query.event = "mem-inuse";
        struct store_merge merge = scene_merge(&scene, &query);
        CHECK_INT(scene_total(&merge), ==, 5000 + 6000);
        CHECK_INT(merge.windows, ==, 2);
        CHECK_INT(merge.windows_expected, ==, 2);
        query.until_unix_s = HOUR + 2001;
        merge = scene_merge(&scene, &query);
        CHECK_INT(scene_total(&merge), ==, 2000 + 3000);
        scene_maintain(&scene, HOUR + 3600 * 5);
    }
    scene_close(&scene);
}

/* Four processes one after the other, each with three snapshots of 500 a minute apart. The next one
 * begins two minutes later. */
static void put_restarts(int64_t begin) {
    struct row row = {7, "", 500};
    for (uint32_t i = 0; i < 12; i++)
        scene_put(&scene, &(struct spec){.event = "mem-inuse",
                                         .pid = 100 + i / 3,
                                         .seq = i,
                                         .begin = begin + 60 * i + 180 * (i / 3),
                                         .rows = &row,
                                         .row_count = 1});
}

TEST(of_a_state_processes_that_have_ended_do_not_count) {
    scene_open(&scene);
    put_restarts(HOUR);
    struct store_query query = scene_query(HOUR, HOUR + 3600);
    query.event = "mem-inuse";
    struct store_merge merge = scene_merge(&scene, &query);
    CHECK_INT(scene_total(&merge), ==, 500);
    CHECK_INT(merge.windows, ==, 1);
    for (uint32_t step_s = 300; step_s <= 3600; step_s += 300) {
        struct store_series_query ask = {.query = query, .step_s = step_s, .limit = 4};
        struct store_series_result result;
        CHECK_INT(scene.store->ops->series(scene.store, &ask, &scene.arena, &result, NULL), ==, 0);
        CHECK_INT(result.series_count, ==, 1);
        for (size_t i = 0; i < result.series[0].point_count; i++)
            CHECK_INT(result.series[0].points[i].value, ==, 500);
    }
    /* A window in which nothing is in use says so at once. */
    const struct row nothing = {7, "", 0};
    scene_put(&scene, &(struct spec){.event = "mem-inuse",
                                     .pid = 103,
                                     .seq = 99,
                                     .begin = HOUR + 1210,
                                     .rows = &nothing,
                                     .row_count = 1});
    merge = scene_merge(&scene, &query);
    CHECK_INT(scene_total(&merge), ==, 0);
    scene_close(&scene);
}

TEST(series_group_by_labels_and_threads) {
    scene_open(&scene);
    scene_fill(&scene, "redis", HOUR, 60);
    struct store_query query = scene_query(HOUR, HOUR + 3600);
    int64_t total = 0;
    struct store_merge all = scene_merge(&scene, &query);
    const char *names[] = {"version", "thread"};
    for (int round = 0; round < 4; round++) {
        struct store_series_query ask = {.query = query,
                                         .step_s = round < 2 ? 60 : 3600,
                                         .group_by = names,
                                         .group_count = 1 + round % 2,
                                         .limit = 4};
        struct store_series_result result;
        CHECK_INT(scene.store->ops->series(scene.store, &ask, &scene.arena, &result, NULL), ==, 0);
        CHECK_INT(result.series_count, ==, round % 2 ? 4 : 3);
        CHECK_INT(result.omitted, ==, round % 2 ? 2 : 0);
        total = 0;
        for (size_t i = 0; i < result.series_count; i++) {
            const struct store_series *series = &result.series[i];
            int64_t sum = 0;
            CHECK_INT(series->point_count, ==, round < 2 ? 10 : 1);
            for (size_t point = 0; point < series->point_count; point++)
                sum += series->points[point].value;
            CHECK_INT(sum, ==, series->sum);
            CHECK_INT(series->points[0].time_unix_s, ==, HOUR);
            CHECK(strlen(series->values[0]) == 1);
            total += sum;
        }
        if (round % 2 == 0)
            CHECK_INT(total, ==, scene_total(&all));
        CHECK_INT(result.completeness.windows, ==, 60);
        if (round == 1)
            scene_maintain(&scene, HOUR + 8000);
    }
    scene_close(&scene);
}

static int by_id(const void *left, const void *right) {
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The sums of the rows with an even stack, by hand. */
static size_t choose_even(const struct store_merge *all, uint64_t *ids, int64_t *sum) {
    size_t count = 0;
    *sum = 0;
    for (size_t i = 0; i < all->row_count; i++) {
        if (all->rows[i].stack % 2)
            continue;
        *sum += all->rows[i].value;
        ids[count++] = all->rows[i].stack;
    }
    qsort(ids, count, sizeof *ids, by_id);
    return count;
}

TEST(a_series_of_chosen_stacks_counts_no_others) {
    scene_open(&scene);
    scene_fill(&scene, "redis", HOUR, 60);
    scene_fill(&scene, "nginx", HOUR, 30);
    struct store_query query = scene_query(HOUR, HOUR + 3600);
    const char *name = "thread";
    for (int round = 0; round < 4; round++) {
        struct store_merge all = scene_merge(&scene, &query);
        uint64_t ids[1000];
        int64_t wanted, sum = 0;
        size_t count = choose_even(&all, ids, &wanted);
        struct store_series_query ask = {.query = query,
                                         .step_s = round % 2 ? 3600 : 60,
                                         .group_by = &name,
                                         .group_count = (size_t)round % 2,
                                         .limit = 10,
                                         .stacks = ids,
                                         .stack_count = count};
        struct store_series_result result;
        CHECK_INT(count, >, 10);
        CHECK_INT(scene.store->ops->series(scene.store, &ask, &scene.arena, &result, NULL), ==, 0);
        for (size_t i = 0; i < result.series_count; i++)
            sum += result.series[i].sum;
        CHECK_INT(sum, ==, wanted);
        ask.stack_count = 0;
        CHECK_INT(scene.store->ops->series(scene.store, &ask, &scene.arena, &result, NULL), ==, 0);
        CHECK_INT(result.series_count, >, 0);
        CHECK_INT(result.series[0].sum, ==, 0);
        if (round == 1)
            scene_maintain(&scene, HOUR + 8000);
    }
    scene_close(&scene);
}

TEST(services_and_labels_are_listed) {
    scene_open(&scene);
    scene_fill(&scene, "redis", HOUR, 6);
    scene_fill(&scene, "nginx", HOUR, 3);
    scene_put(&scene, &(struct spec){.event = "off-cpu", .host = "b", .seq = 1, .begin = HOUR});
    for (int i = 0; i < 2; i++, scene_maintain(&scene, HOUR + 8000)) {
        struct store_query query = scene_query(HOUR, HOUR + 3600);
        query.event = NULL; /* all */
        struct store_service *services;
        size_t count;
        const struct store_ops *ops = scene.store->ops;
        CHECK_INT(ops->services(scene.store, &query, &scene.arena, &services, &count, NULL), ==, 0);
        CHECK_INT(count, ==, 2);
        CHECK_STR(services[0].name, "nginx");
        CHECK_INT(services[0].processes, ==, 3);
        CHECK_INT(services[0].last_unix_s, ==, HOUR + 30);
        CHECK_INT(services[1].hosts, ==, 2);
        CHECK_INT(services[1].processes, ==, 4);
        CHECK_INT(services[1].event_count, ==, 2);
        CHECK_STR(services[1].events[1], "on-cpu");
        CHECK_INT(services[1].first_unix_s, ==, HOUR);
        query.service = "redis";
        query.event = "on-cpu";
        struct store_merge merge = scene_merge(&scene, &query);
        CHECK_INT(services[1].on_cpu_ns, ==, scene_total(&merge));
        query.event = NULL;
        query.service = NULL;
        const char **texts;
        bool is_cut;
        CHECK_INT(ops->labels(scene.store, &query, NULL, 100, &scene.arena, &texts, &count, &is_cut,
                              NULL),
                  ==, 0);
        CHECK_INT(count, ==, 8);
        CHECK_STR(texts[0], "env");
        CHECK_STR(texts[7], "version");
        CHECK_INT(ops->labels(scene.store, &query, "version", 2, &scene.arena, &texts, &count,
                              &is_cut, NULL),
                  ==, 0);
        CHECK_INT(count, ==, 2);
        CHECK(is_cut);
        CHECK_STR(texts[1], "2");
        CHECK_INT(ops->labels(scene.store, &query, "thread", 9, &scene.arena, &texts, &count,
                              &is_cut, NULL),
                  ==, 0);
        CHECK_INT(count, ==, 2);
        CHECK_STR(texts[0], "io");
    }
    scene_close(&scene);
}

static struct store_total total(uint64_t seq, int64_t begin, const char *thread, int64_t cpu_ns) {
    return (struct store_total){.source = 1,
                                .epoch = 1,
                                .seq = seq,
                                .host = "a",
                                .begin_unix_s = begin,
                                .length_s = 10,
                                .process = "redis-server",
                                .thread = thread,
                                .cpu_ns = cpu_ns};
}

static int64_t host_total(const char *thread, size_t rows) {
    struct store_query query = scene_query(HOUR, HOUR + 3600);
    struct store_total_row *found;
    struct store_merge merge;
    size_t count;
    int64_t sum = 0;
    CHECK_INT(
        scene.store->ops->totals(scene.store, &query, &scene.arena, &found, &count, &merge, NULL),
        ==, 0);
    CHECK_INT(count, ==, rows);
    for (size_t i = 0; i < count; i++) {
        CHECK_STR(found[i].process, "redis-server");
        sum += strcmp(found[i].thread, thread) == 0 ? found[i].cpu_ns : 0;
    }
    return sum;
}

TEST(totals_are_kept_once_and_by_host) {
    scene_open(&scene);
    for (uint64_t i = 0; i < 13; i++) {
        uint64_t seq = i % 12; /* the last one is a duplicate */
        struct store_total totals[] = {total(seq, HOUR + 10 * (int64_t)seq, "", 123),
                                       total(seq, HOUR + 10 * (int64_t)seq, "bio", 4567891)};
        struct store_batch batch = {.totals = totals, .total_count = 2};
        struct store_put_result result;
        CHECK_INT(store_put(scene.store, &batch, &result, NULL), ==, SONDE_OK);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_INT(host_total("", 2), ==, 12 * 123);
        CHECK_INT(host_total("bio", 2), ==, 12 * 4567891);
        scene_maintain(&scene, HOUR + 8000);
    }
    struct store_total other = total(50, HOUR, "", 1);
    other.host = "b";
    struct store_batch batch = {.totals = &other, .total_count = 1};
    struct store_put_result result;
    CHECK_INT(store_put(scene.store, &batch, &result, NULL), ==, SONDE_OK);
    struct store_query query = scene_query(HOUR, HOUR + 3600);
    struct store_total_row *found;
    struct store_merge merge;
    size_t count;
    struct sonde_diag diag = {0};
    CHECK_INT(
        scene.store->ops->totals(scene.store, &query, &scene.arena, &found, &count, &merge, &diag),
        ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "host = 'a'"));
    struct selector *selector;
    CHECK_INT(selector_parse("host = 'b'", NULL, NULL, &selector, NULL), ==, SONDE_OK);
    query.selector = selector;
    CHECK_INT(
        scene.store->ops->totals(scene.store, &query, &scene.arena, &found, &count, &merge, &diag),
        ==, SONDE_OK);
    CHECK_INT(count, ==, 1);
    CHECK_INT(found[0].cpu_ns, ==, 1);
    selector_destroy(selector);
    scene_close(&scene);
}

static void put_total(const char *host, uint64_t seq, int64_t begin) {
    struct store_total one = total(seq, begin, "", 1);
    struct store_batch batch = {.totals = &one, .total_count = 1};
    struct store_put_result result;
    one.host = host;
    CHECK_INT(store_put(scene.store, &batch, &result, NULL), ==, SONDE_OK);
}

/* Before and after the hours have become rollups. */
TEST(hosts_have_the_times_in_which_they_recorded) {
    scene_open(&scene);
    uint64_t seq = 1;
    for (int64_t at = HOUR; at < HOUR + 7200; at += 10)
        if (at < HOUR + 3000 || at >= HOUR + 4000)
            put_total("a", seq++, at);
    put_total("b", seq++, HOUR + 100);
    put_total("b", seq++, HOUR + 114); /* four seconds are no pause */
    for (int i = 0; i < 2; i++) {
        struct store_query query = scene_query(HOUR - 100, HOUR + 7200);
        struct store_host *hosts;
        size_t count;
        CHECK_INT(scene.store->ops->hosts(scene.store, &query, &scene.arena, &hosts, &count, NULL),
                  ==, SONDE_OK);
        CHECK_INT(count, ==, 2);
        CHECK_STR(hosts[0].name, "a");
        CHECK_INT(hosts[0].span_count, ==, 2);
        CHECK_INT(hosts[0].spans[0].begin_unix_s, ==, HOUR);
        CHECK_INT(hosts[0].spans[0].end_unix_s, ==, HOUR + 3000);
        CHECK_INT(hosts[0].spans[1].begin_unix_s, ==, HOUR + 4000);
        CHECK_INT(hosts[0].spans[1].end_unix_s, ==, HOUR + 7200);
        CHECK_INT(hosts[1].span_count, ==, 1);
        CHECK_INT(hosts[1].spans[0].end_unix_s, ==, HOUR + 124);
        scene_maintain(&scene, HOUR + 3600 * 4);
    }
    scene_close(&scene);
}
