/* SPDX-License-Identifier: Apache-2.0
 *
 * The store on a real server. */
#include "service/store/clickhouse/clickhouse.h"
#include "service/store/selector/selector.h"
#include "tests/unit/check.h"
#include "tests/unit/store/clickhouse/scene.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST(merge_sums_by_stack_and_thread_and_reports_how_complete_it_is) {
    struct store *store = scene_open("sums", NULL);
    struct store_window windows[] = {scene_window(0), scene_window(1), scene_window(3)};
    windows[1].weight = 2.5;
    windows[2].source++; /* sonded has started again */
    struct store_put_result result = scene_put(store, windows, 3);
    CHECK_INT(result.stored, ==, 3);
    struct sonde_arena arena = {0};
    struct store_merge merge;
    struct store_query query = scene_query();
    CHECK_INT(store->ops->merge(store, &query, &arena, &merge, NULL), ==, SONDE_OK);
    CHECK_INT(merge.row_count, ==, 2);
    for (size_t i = 0; i < 2; i++) {
        bool is_main = merge.rows[i].stack == 1;
        CHECK_STR(merge.threads[merge.rows[i].thread], is_main ? "main" : "io");
        CHECK_STR(merge.services[merge.rows[i].service], "shop");
        CHECK_INT(merge.rows[i].value, ==, is_main ? 30 + 75 + 30 : 12 + 30 + 12);
    }
    CHECK_INT(merge.windows, ==, 3);
    CHECK_INT(merge.windows_expected, ==, 4); /* the third one is missing */
    CHECK_INT(merge.samples, ==, 9);
    CHECK_INT(merge.dropped, ==, 3);
    CHECK_INT(merge.rows_read, ==, 6);
    CHECK_INT(merge.covered_ns, ==, 30000000000);
    CHECK_INT(merge.wall_ns, ==, 30000000000);
    CHECK_INT(merge.period_ns, ==, 52631578);
    CHECK_INT(merge.shards_asked, ==, 0);
    CHECK(strstr(merge.statement, "SELECT"));
    query.service = NULL;
    CHECK_INT(store->ops->merge(store, &query, &arena, &merge, NULL), ==, SONDE_OK);
    CHECK_INT(merge.row_count, ==, 2);
    CHECK_STR(merge.services[merge.rows[0].service], "shop");
    sonde_arena_finish(&arena);
    store_close(store);
}

TEST(put_stores_a_window_once) {
    struct store *store = scene_open("once", NULL);
    struct store_window windows[] = {scene_window(0), scene_window(1), scene_window(2)};
    struct store_put_result result = scene_put(store, windows, 2);
    CHECK_INT(result.stored, ==, 2);
    CHECK_INT(result.duplicates, ==, 0);
    result = scene_put(store, windows, 3); /* other borders than before */
    CHECK_INT(result.stored, ==, 1);
    CHECK_INT(result.duplicates, ==, 2);
    windows[0] = windows[1] = windows[2] = scene_window(5); /* three times in one batch */
    result = scene_put(store, windows, 3);
    CHECK_INT(result.stored, ==, 1);
    CHECK_INT(result.duplicates, ==, 2);
    windows[0].epoch = 2; /* another identity */
    windows[1].source = 2;
    result = scene_put(store, windows, 2);
    CHECK_INT(result.stored, ==, 2);
    struct store_query query = scene_query();
    CHECK_INT(scene_sum(store, &query), ==, 6 * 42);
    store_close(store);
}

TEST(kill_9_between_puts_loses_and_doubles_nothing) {
    struct server *server = scene_server();
    struct store *store = scene_open("killed", NULL);
    struct store_query query = scene_query();
    for (uint64_t seq = 0; seq < 4; seq++) {
        struct store_window window = scene_window(seq);
        struct store_batch batch = {.windows = &window, .window_count = 1};
        struct store_put_result result;
        struct sonde_diag diag = {0};
        CHECK_INT(scene_put(store, &window, 1).stored, ==, 1);
        server_kill(server);
        CHECK_INT(store_put(store, &batch, &result, &diag), ==, SONDE_UNAVAILABLE);
        CHECK(strstr(diag.text, "127.0.0.1"));
        server_start(server);
        CHECK_INT(scene_put(store, &window, 1).duplicates, ==, 1);
        CHECK_INT(scene_sum(store, &query), ==, 42 * (int64_t)(seq + 1));
    }
    store_close(store);
}

static const uint64_t pair[] = {10, 11}, turned[] = {11, 10};
static const struct store_line old_names[] = {{"f", "f.c", 7}};
static const struct store_line better_names[] = {{"inlined", "i.h", 1}, {"f", "", 0}};

TEST(stacks_are_stored_once_and_contradictions_are_rejected) {
    struct store *store = scene_open("texts", NULL);
    struct store_stack stacks[] = {{"shop", 1, pair, 2},
                                   {"shop", 2, pair, 1},
                                   {"shop", 1, turned, 2},
                                   {"other", 1, turned, 2}};
    struct store_batch batch = {.stacks = stacks, .stack_count = 4};
    struct store_put_result result;
    struct sonde_arena arena = {0};
    struct store_stack *found;
    size_t count;
    uint64_t ids[] = {1, 2, 3};
    for (int i = 0; i < 2; i++) {
        CHECK_INT(store_put(store, &batch, &result, NULL), ==, SONDE_OK);
        CHECK_INT(result.rejected, ==, 1);
    }
    for (int i = 0; i < 2; i++) { /* from the cache, then from the server */
        CHECK_INT(store->ops->stacks(store, "shop", ids, 3, NULL, &arena, &found, &count, NULL), ==,
                  SONDE_OK);
        CHECK_INT(count, ==, 2);
        CHECK_INT(found[0].frame_count + found[1].frame_count, ==, 3);
        store_close(store);
        store = scene_open("texts", NULL);
    }
    CHECK_INT(store_put(store, &batch, &result, NULL), ==, SONDE_OK);
    CHECK_INT(result.rejected, ==, 1);
    sonde_arena_finish(&arena);
    store_close(store);
}

TEST(changes_are_stored_once_and_listed_newest_first) {
    struct store *store = scene_open("changes", NULL);
    const struct store_change rows[] = {{SCENE_TIME, "shop", {"a\0'", 3}},
                                        {SCENE_TIME + 60, "d'b", {"b", 1}},
                                        {SCENE_TIME, "shop", {"a\0'", 3}}};
    struct store_change_query query = {"", SCENE_TIME, SCENE_TIME + 61, 10, NULL};
    struct sonde_arena arena = {0};
    struct store_change *found;
    size_t count;
    for (int i = 0; i < 3; i++)
        CHECK_INT(store->ops->put_change(store, &rows[i], NULL), ==, SONDE_OK);
    CHECK_INT(store->ops->changes(store, &query, &arena, &found, &count, NULL), ==, SONDE_OK);
    CHECK_INT(count, ==, 2);
    CHECK_STR(found[0].service, "d'b");
    CHECK_INT(found[1].time_unix_s, ==, SCENE_TIME);
    CHECK_INT(found[1].body.len, ==, 3);
    CHECK(memcmp(found[1].body.data, "a\0'", 3) == 0);
    query.service = "d'b";
    CHECK_INT(store->ops->changes(store, &query, &arena, &found, &count, NULL), ==, SONDE_OK);
    CHECK_INT(count, ==, 1);
    sonde_arena_finish(&arena);
    store_close(store);
}

static void put_frames(struct store *store, const struct store_frame *frames, size_t count,
                       uint32_t rejected) {
    struct store_batch batch = {.frames = frames, .frame_count = count};
    struct store_put_result result;
    CHECK_INT(store_put(store, &batch, &result, NULL), ==, SONDE_OK);
    CHECK_INT(result.rejected, ==, rejected);
}

TEST(frames_get_better_names_and_keep_their_place) {
    struct store *store = scene_open("texts", NULL);
    struct store_frame frames[] = {
        {10, "abc", "/bin/a", 0x10, SONDE_FRAME_APPLICATION, 1, old_names, 1},
        {11, "", "/lib/b", 0x20, SONDE_FRAME_LIBRARY, 0, NULL, 0},
        {10, "abd", "/bin/a", 0x10, SONDE_FRAME_APPLICATION, 9, old_names, 1},
    };
    struct sonde_arena arena = {0};
    struct store_frame *known;
    size_t count;
    uint64_t ids[] = {10, 11, 12};
    put_frames(store, frames, 3, 1);
    CHECK_INT(store->ops->unnamed(store, 10, &arena, &known, &count, NULL), ==, SONDE_OK);
    CHECK_INT(count, ==, 1);
    CHECK_INT(known[0].id, ==, 11);
    frames[2] = frames[0]; /* worse names come late */
    frames[0].version = 2;
    frames[0].lines = better_names;
    frames[0].line_count = 2;
    put_frames(store, frames, 1, 0);
    put_frames(store, &frames[2], 1, 0);
    for (int i = 0; i < 2; i++) { /* from the cache, then from the server */
        CHECK_INT(store->ops->frames(store, ids, 3, NULL, &arena, &known, &count, NULL), ==,
                  SONDE_OK);
        CHECK_INT(count, ==, 2);
        const struct store_frame *named = known[0].id == 10 ? &known[0] : &known[1];
        CHECK_INT(named->version, ==, 2);
        CHECK_INT(named->line_count, ==, 2);
        CHECK_STR(named->lines[0].function, "inlined");
        CHECK_STR(named->lines[0].file, "i.h");
        CHECK_STR(named->build_id, "abc");
        CHECK_INT(named->address, ==, 0x10);
        CHECK_INT(named->kind, ==, SONDE_FRAME_APPLICATION);
        store_close(store);
        store = scene_open("texts", NULL);
    }
    sonde_arena_finish(&arena);
    store_close(store);
}

TEST(selectors_choose_windows_and_threads) {
    struct store *store = scene_open("selectors", NULL);
    struct store_window windows[] = {scene_window(0), scene_window(1), scene_window(2)};
    static const struct store_label labels[] = {{"pod", "b"}, {"size", "-12"}};
    windows[1].labels = labels;
    windows[1].host = "host-2";
    windows[2].label_count = 0;
    windows[2].pid = 7;
    scene_put(store, windows, 3);
    const struct {
        const char *selector;
        int64_t sum;
    } cases[] = {
        {"", 126},
        {"pod = 'a'", 42},
        {"pod != 'a'", 84},
        {"pod = ''", 42},
        {"pod IN ('a', 'b')", 84},
        {"NOT pod IN ('a', 'b')", 42},
        {"host = 'host-2' OR pid = '7'", 84},
        {"host LIKE 'host-_' AND pod LIKE '%'", 126},
        {"host LIKE 'host\\\\_1'", 0},
        {"host REGEXP '-2$'", 42},
        {"{host=~\"host\"}", 0},
        {"{host=~\"host-.\", pod!~\"b\"}", 84},
        {"{__profile_type__=~\"process_cpu.*\", pod!~\"b\"}", 84},
        {"__profile_type__ = '' OR __profile_type__ LIKE 'memory:%'", 0},
        {"version < '10' AND version > ''", 42}, /* as numbers */
        {"version >= '007'", 42},
        {"size < '-2'", 126}, /* "" is less as text */
        {"size > '-100' AND size <= '-12'", 42},
        {"size < '-12'", 84}, /* "" is less than "-12" */
        {"thread = 'io'", 36},
        {"thread = 'io' AND pod = 'a'", 12},
        {"thread != 'io'", 90},
        {"thread = 'none'", 0},
        {"event = 'on-cpu' AND service = 'shop' AND instance LIKE '0011%'", 126},
        {"pid < '42'", 42},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t sum = scene_sum_where(store, cases[i].selector);
        if (sum != cases[i].sum)
            check_fail(__FILE__, __LINE__, "%s: %lld", cases[i].selector, (long long)sum);
    }
    store_close(store);
}

/* Texts that would end a literal, a comment or a statement if they were pasted. */
static const char *const attacks[] = {
    "' OR 1=1 --",
    "\\' OR 1=1 --",
    "\\",
    "'",
    "''",
    "\"",
    "`",
    "a\nb",
    "a\tb",
    "\r\n\x01\x7f",
    "\xff\xfe",
    "\xc3\xa4 \xe2\x82\xac",
    "%",
    "_",
    "{x:String}",
    "'; DROP TABLE samples; --",
    "\\x27 OR 1",
    "/*",
    "*/",
    "@@",
    "\\0",
    "\\N",
    "NULL",
    "$$",
    ")",
    "'||'",
    "&query=SELECT",
};

TEST(hostile_texts_are_data) {
    struct store *store = scene_open("attacks", NULL);
    size_t count = sizeof attacks / sizeof attacks[0];
    for (size_t i = 0; i < count; i++) {
        struct store_window window = scene_window(i);
        struct store_label label = {attacks[i], attacks[i]};
        uint64_t frames[] = {i}, id = i, frame_id = i + 1000;
        struct store_line line = {attacks[i], attacks[i], 1};
        struct store_stack stack = {attacks[i], id, frames, 1};
        struct store_frame frame = {frame_id, attacks[i], attacks[i], 1, 1, 1, &line, 1};
        window.service = window.host = window.instance = window.clock = attacks[i];
        window.labels = &label;
        window.label_count = 1;
        window.threads = &attacks[i];
        window.thread_count = 1;
        window.row_count = 1;
        struct store_batch batch = {.windows = &window,
                                    .window_count = 1,
                                    .stacks = &stack,
                                    .stack_count = 1,
                                    .frames = &frame,
                                    .frame_count = 1};
        struct store_put_result result;
        struct sonde_diag diag = {0};
        if (store_put(store, &batch, &result, &diag) != SONDE_OK || result.stored != 1)
            check_fail(__FILE__, __LINE__, "%s: %s", attacks[i], diag.text);
    }
    store_close(store);
    store = scene_open("attacks", NULL);
    for (size_t i = 0; i < count; i++) {
        struct sonde_arena arena = {0};
        struct store_merge merge;
        struct store_query query = scene_query();
        struct store_stack *stacks;
        struct store_frame *frames;
        uint64_t id = i, frame_id = i + 1000;
        size_t found;
        query.service = attacks[i];
        CHECK_INT(store->ops->merge(store, &query, &arena, &merge, NULL), ==, SONDE_OK);
        CHECK_INT(merge.row_count, ==, 1);
        CHECK_INT(merge.rows[0].value, ==, 30);
        CHECK_STR(merge.threads[0], attacks[i]);
        CHECK_INT(
            store->ops->stacks(store, attacks[i], &id, 1, NULL, &arena, &stacks, &found, NULL), ==,
            SONDE_OK);
        CHECK_INT(found, ==, 1);
        CHECK_INT(store->ops->frames(store, &frame_id, 1, NULL, &arena, &frames, &found, NULL), ==,
                  SONDE_OK);
        CHECK_INT(found, ==, 1);
        CHECK_STR(frames[0].lines[0].function, attacks[i]);
        query.event = attacks[i];
        CHECK_INT(store->ops->merge(store, &query, &arena, &merge, NULL), ==, SONDE_OK);
        CHECK_INT(merge.row_count, ==, 0);
        sonde_arena_finish(&arena);
    }
    CHECK_INT(scene_sum_where(store, "pod = ''' OR 1=1 --'"), ==, 0);
    CHECK_INT(scene_sum_where(store, "`' OR 1=1 --` = 'x'"), ==, 0);
    store_close(store);
}

TEST(of_a_state_the_last_window_of_each_process_counts) {
    struct store *store = scene_open("states", NULL);
    struct store_window windows[] = {scene_window(0), scene_window(1), scene_window(2)};
    static const int64_t later[] = {1000, 2000};
    for (int i = 0; i < 3; i++)
        windows[i].event = "mem-inuse";
    windows[1].value = later;
    windows[2].begin_unix_s = windows[0].begin_unix_s;
    windows[2].pid = 43;
    scene_put(store, windows, 3);
    struct store_query query = scene_query();
    query.event = "mem-inuse";
    CHECK_INT(scene_sum(store, &query), ==, 3000 + 42);
    struct sonde_arena arena = {0};
    struct store_merge merge;
    CHECK_INT(store->ops->merge(store, &query, &arena, &merge, NULL), ==, SONDE_OK);
    CHECK_INT(merge.windows, ==, 2);
    CHECK_INT(merge.windows_expected, ==, 2);
    CHECK_INT(merge.samples, ==, 2 * 3);
    CHECK_INT(merge.covered_ns, ==, 20 * 1000000000ll);
    CHECK_INT(merge.first_unix_s, ==, windows[0].begin_unix_s);
    CHECK_INT(merge.period_ns, ==, 52631578);
    sonde_arena_finish(&arena);
    struct selector *selector;
    CHECK_INT(selector_parse("thread = 'io' AND pod = 'a'", NULL, NULL, &selector, NULL), ==, 0);
    query.selector = selector;
    CHECK_INT(scene_sum(store, &query), ==, 2000 + 12);
    selector_destroy(selector);
    store_close(store);
}

TEST(of_a_state_processes_that_have_ended_do_not_count) {
    struct store *store = scene_open("ended_states", NULL);
    struct store_window windows[13];
    struct store_query query = scene_query();
    for (uint32_t i = 0; i < 13; i++) {
        windows[i] = scene_window(i);
        windows[i].event = "mem-inuse";
        windows[i].begin_unix_s = SCENE_TIME + 60 * i + 180 * (i / 3);
        windows[i].pid = 100 + i / 3;
    }
    windows[12].begin_unix_s = SCENE_TIME + 1210;
    windows[12].pid = 103; /* nothing is in use */
    windows[12].row_count = 0;
    scene_put(store, windows, 12);
    query.event = "mem-inuse";
    CHECK_INT(scene_sum(store, &query), ==, 42);
    for (uint32_t step_s = 300; step_s <= 3600; step_s += 300) {
        struct store_series_query ask = {.query = query, .step_s = step_s, .limit = 4};
        struct store_series_result result;
        struct sonde_arena arena = {0};
        CHECK_INT(store->ops->series(store, &ask, &arena, &result, NULL), ==, SONDE_OK);
        CHECK_INT(result.series_count, ==, 1);
        for (size_t i = 0; i < result.series[0].point_count; i++)
            CHECK_INT(result.series[0].points[i].value, ==, 42);
        CHECK_INT(result.completeness.windows, >=, result.series[0].point_count);
        CHECK_INT(result.completeness.windows, <, 12);
        sonde_arena_finish(&arena);
    }
    scene_put(store, &windows[12], 1);
    CHECK_INT(scene_sum(store, &query), ==, 0);
    store_close(store);
}

static sonde_err open_with(const char *user, const char *settings, struct store **store,
                           struct sonde_diag *diag) {
    char url[300];
    snprintf(url, sizeof url, "http://%s127.0.0.1:%d/limits%s", user, scene_server()->http_port,
             settings);
    return clickhouse_open(url, NULL, store, diag);
}

TEST(users_without_the_right_are_refused_and_passwords_are_not_shown) {
    struct store *store;
    struct sonde_diag diag = {0};
    CHECK_INT(open_with("keeper:wrong@", "", &store, &diag), ==, SONDE_PERMISSION_DENIED);
    CHECK(strstr(diag.text, "keeper"));
    CHECK(!strstr(diag.text, "wrong:") && !strstr(diag.text, "cret"));
    CHECK_INT(open_with("nobody@", "", &store, NULL), ==, SONDE_PERMISSION_DENIED);
    CHECK_INT(open_with("reader@", "", &store, NULL), ==, SONDE_PERMISSION_DENIED);
    CHECK_INT(open_with("keeper:se%27cret%401@", "", &store, NULL), ==, SONDE_OK);
    store_close(store);
}

static sonde_err merge_in(struct store *store, const char *selector, struct sonde_diag *diag) {
    struct sonde_arena arena = {0};
    struct store_merge merge;
    struct store_query query = scene_query();
    struct selector *parsed = NULL;
    CHECK_INT(selector_parse(selector, NULL, NULL, &parsed, NULL), ==, SONDE_OK);
    query.selector = parsed;
    sonde_err err = store->ops->merge(store, &query, &arena, &merge, diag);
    sonde_arena_finish(&arena);
    selector_destroy(parsed);
    return err;
}

static size_t lease(struct store *store, const char *holder, uint32_t duration_s,
                    struct store_lease **live) {
    static struct sonde_arena arena;
    const struct store_lease_request wanted = {"g'roup", holder, duration_s, NULL};
    size_t count = 0;
    struct sonde_diag diag = {0};
    sonde_arena_finish(&arena);
    arena = (struct sonde_arena){0};
    if (store->ops->lease(store, &wanted, &arena, live, &count, &diag) != SONDE_OK)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    return count;
}

TEST(leases_are_shared_by_all_who_use_the_store) {
    struct store *one = scene_open("leases", NULL), *other = scene_open("leases", NULL);
    struct store_lease *live;
    CHECK_INT(lease(one, "b", 300, &live), ==, 1);
    CHECK_INT(lease(other, "a", 300, &live), ==, 2);
    CHECK_STR(live[0].holder, "a");
    CHECK(live[0].left_s >= 298 && live[0].left_s <= 300);
    CHECK_INT(lease(one, "b", 300, &live), ==, 2);
    CHECK_INT(lease(other, "b", 0, &live), ==, 1);
    CHECK_STR(live[0].holder, "a");
    CHECK_INT(lease(one, "c", 1, &live), ==, 2);
    for (int i = 0; i < 100 && lease(other, "d", 0, &live) == 2; i++)
        usleep(100000);
    CHECK_INT(lease(other, "d", 0, &live), ==, 1);
    store_close(one);
    store_close(other);
}

TEST(limits_of_a_query_are_named) {
    struct store *store;
    struct sonde_diag diag = {0};
    struct store_window window = scene_window(0);
    CHECK_INT(open_with("", "?max_memory_usage=1", &store, NULL), ==, SONDE_OK);
    scene_put(store, &window, 1);
    CHECK_INT(merge_in(store, "", &diag), ==, SONDE_TOO_LARGE);
    CHECK(strstr(diag.text, "max_memory_usage"));
    store_close(store);
    CHECK_INT(open_with("", "", &store, NULL), ==, SONDE_OK);
    CHECK_INT(merge_in(store, "pod REGEXP 'a(?=b)'", &diag), ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "RE2"));
    CHECK_INT(merge_in(store, "pod = 'a'", &diag), ==, SONDE_OK);
    store_close(store);
}
