/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/event.h"
#include "gateway/families/grafana/call_tree.h"
#include "gateway/families/grafana/dot.h"
#include "gateway/families/grafana/grafana_select.h"
#include "gateway/request/json_message.h"
#include "tests/unit/check.h"

#include <stdio.h>

/* ---- Selectors ---- */

static void check_selector(const char *selector, const char *wanted) {
    char text[256];
    snprintf(text, sizeof text, "%s", selector);
    grafana_translate_selector(text);
    if (strlen(text) != strlen(selector) || strcmp(text, wanted) != 0)
        check_fail(__FILE__, __LINE__, "%s: \"%s\"", selector, text);
}

TEST(names_in_selectors_are_sondes) {
    check_selector("{service_name=\"a\",pod!=\"b\"}", "{service     =\"a\",pod!=\"b\"}");
    check_selector("{a=\"service_name\"}", "{a=\"service_name\"}");
    check_selector("{a=\"\\\"service_name\"}", "{a=\"\\\"service_name\"}");
    check_selector("{my_service_name=\"a\"}", "{my_service_name=\"a\"}");
    check_selector("{__profile_type__=\"memory:inuse_space:bytes:space:bytes\"}",
                   "{event=\"mem-inuse\"                                      }");
    check_selector("{__profile_type__ = \"\"}", "{event=\"none\"         }");
    check_selector("{__profile_type__=~\".*\"}", "{__profile_type__=~\".*\"}");
    check_selector("{__profile_type__=\"a", "{__profile_type__=\"a");
    check_selector("{__profile_type__=", "{__profile_type__=");
    check_selector("__profile_type__", "__profile_type__");
    check_selector("", "");
}

static void check_matcher(const char *matcher, const char *wanted) {
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    struct sonde_arena memory = {0};
    struct sonde_diag why = {0};
    char *list[] = {(char *)(uintptr_t)matcher};
    CHECK(!grafana_read_matchers(list, 1, &memory, &selection, &why));
    CHECK_STR(selection.selector, wanted);
    sonde_arena_finish(&memory);
}

TEST(a_matcher_may_begin_with_a_type) {
    check_matcher("memory:inuse_space:bytes:space:bytes{pod=\"a\"}",
                  "{event=\"mem-inuse\",pod=\"a\"}");
    check_matcher("process_cpu:cpu:nanoseconds:cpu:nanoseconds{}", "{event=\"on-cpu\"}");
    check_matcher("process_cpu:cpu:nanoseconds:cpu:nanoseconds", "{event=\"on-cpu\"}");
    check_matcher("process_cpu{ }", "{event=\"none\" }");
    check_matcher("{pod=\"a\"}", "{pod=\"a\"}");
    check_matcher(" { } ", "");
    check_matcher("", "");
}

static void check_type(const char *id, const char *wanted) {
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    struct sonde_diag why = {0};
    CHECK(!grafana_read_type(id, &selection, &why));
    CHECK_STR(selection.event, wanted);
}

TEST(every_recorded_event_has_a_type) {
    for (size_t i = 0; i < SONDE_EVENTS; i++)
        if (sonde_events[i].is_recorded)
            check_type(sonde_events[i].pyroscope_id, sonde_events[i].name);
    check_type("process_cpu:cpu:nanoseconds:cpu:nanoseconds", "on-cpu");
    check_type("wall:wall:nanoseconds:wall:nanoseconds", "none");
    check_type("::::", "none");
}

TEST(ranges_are_bounded) {
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    struct sonde_diag diag = {0};
    CHECK(!grafana_read_range(0, 0, &selection, &diag));
    CHECK_INT(selection.until_unix_ns, ==, 0);
    CHECK(!grafana_read_range(-5, INT64_MAX, &selection, &diag));
    CHECK_INT(selection.from_unix_ns, ==, 0);
    CHECK_INT(selection.until_unix_ns, ==, 9000000000000000000);
    CHECK(grafana_read_range(5, 5, &selection, &diag));
    CHECK(grafana_read_range(5, -5, &selection, &diag));
}

/* ---- Trees ---- */

static struct call_tree tree;
static struct sonde_arena arena;
static struct sonde_diag diag;
static Querier__V1__FlameGraphDiff graph;

struct nodes {
    uint32_t function[6], parent[6];
    int64_t self[6], total[6], base_self[6], base_total[6];
    size_t count;
};

static char *functions[] = {(char *)"a", (char *)"b"};

static sonde_err lay_out(struct nodes *nodes, bool has_base) {
    Sonde__V1__Tree message = SONDE__V1__TREE__INIT;
    call_tree_finish(&tree);
    sonde_arena_finish(&arena);
    message.functions = functions;
    message.n_functions = 2;
    message.function = nodes->function;
    message.parent = nodes->parent;
    message.self = nodes->self;
    message.total = nodes->total;
    message.base_self = nodes->base_self;
    message.base_total = nodes->base_total;
    message.n_function = message.n_parent = message.n_self = message.n_total = nodes->count;
    message.n_base_self = message.n_base_total = has_base ? nodes->count : 0;
    sonde_err err = call_tree_add(&tree, &message, &diag);
    return err ? err : call_tree_flamegraph(&tree, has_base, &arena, &graph, &diag);
}

static void check_level(size_t level, const int64_t *values, size_t count) {
    CHECK_INT(graph.levels[level]->n_values, ==, count);
    for (size_t i = 0; i < count; i++)
        CHECK_INT(graph.levels[level]->values[i], ==, values[i]);
}

/* 20: a 12 (3 of its own) > b 4, a 5; b 6 > a 6 */
static struct nodes example = {{0, 0, 1, 0, 1, 0},
                               {0, 0, 1, 1, 0, 4},
                               {2, 3, 4, 5, 0, 6},
                               {20, 12, 4, 5, 6, 6},
                               {1, 0, 2, 0, 0, 0},
                               {3, 2, 2, 0, 0, 0},
                               6};

TEST(levels_list_bars_by_their_distance) {
    CHECK(!lay_out(&example, false));
    CHECK_INT(graph.n_levels, ==, 3);
    check_level(0, (int64_t[]){0, 20, 2, 0}, 4);
    check_level(1, (int64_t[]){2, 12, 3, 1, 0, 6, 0, 2}, 8);
    check_level(2, (int64_t[]){5, 4, 4, 2, 0, 5, 5, 1, 0, 6, 6, 1}, 12);
    CHECK_INT(graph.total, ==, 20);
    CHECK_INT(graph.max_self, ==, 6);
    CHECK_STR(graph.names[0], "total");
    CHECK_STR(graph.names[2], "b");
}

TEST(a_difference_has_the_base_on_the_left) {
    CHECK(!lay_out(&example, true));
    check_level(0, (int64_t[]){0, 3, 1, 0, 20, 2, 0}, 7);
    check_level(1, (int64_t[]){1, 2, 0, 2, 12, 3, 1, 0, 0, 0, 0, 6, 0, 2}, 14);
    CHECK_INT(graph.leftticks, ==, 3);
    CHECK_INT(graph.rightticks, ==, 20);
    CHECK_INT(graph.total, ==, 23);
}

TEST(a_graph_counts_recursion_once) {
    struct sonde_buf out = {0};
    CHECK(!lay_out(&example, false));
    dot_append(&out, &tree);
    CHECK_STR(out.data, "digraph \"profile\" {\nnode [shape=box]\n"
                        "N0 [label=\"a\\n14 of 18 (90.00%)\"]\n"
                        "N1 [label=\"b\\n4 of 10 (50.00%)\"]\n"
                        "N0 -> N0 [label=\" 5\"]\nN0 -> N1 [label=\" 4\"]\n"
                        "N1 -> N0 [label=\" 6\"]\n}\n");
    sonde_buf_finish(&out);
}

TEST(names_in_a_graph_have_no_control_characters) {
    struct sonde_buf out = {0};
    functions[0] = (char *)"\"\\\n\xc2\x9b\xe2\x80\xae\xc3\xbc";
    CHECK(!lay_out(&example, false));
    dot_append(&out, &tree);
    functions[0] = (char *)"a";
    CHECK(strstr(out.data, "N0 [label=\"\\\"\\\\      \xc3\xbc\\n14 of 18"));
    sonde_buf_finish(&out);
}

TEST(malformed_trees_are_refused) {
    struct nodes bad = example;
    bad.parent[2] = 2;
    CHECK_INT(lay_out(&bad, false), ==, SONDE_PROTOCOL);
    bad = example;
    bad.parent[0] = 1;
    CHECK_INT(lay_out(&bad, false), ==, SONDE_PROTOCOL);
    bad = example;
    bad.function[5] = 2;
    CHECK_INT(lay_out(&bad, false), ==, SONDE_PROTOCOL);
    bad = example;
    bad.count = 0;
    CHECK(!lay_out(&bad, true));
    CHECK_INT(graph.n_levels, ==, 0);
}

TEST(a_tree_may_not_grow_without_end) {
    static uint32_t zeros[CALL_TREE_MAX_NODES + 1];
    static int64_t values[CALL_TREE_MAX_NODES + 1];
    Sonde__V1__Tree message = SONDE__V1__TREE__INIT;
    call_tree_finish(&tree);
    message.function = message.parent = zeros;
    message.self = message.total = values;
    message.n_function = message.n_parent = message.n_self = message.n_total =
        CALL_TREE_MAX_NODES + 1;
    CHECK_INT(call_tree_add(&tree, &message, &diag), ==, SONDE_TOO_LARGE);
    message.n_self = 5;
    CHECK_INT(call_tree_add(&tree, &message, &diag), ==, SONDE_PROTOCOL);
    call_tree_finish(&tree);
    sonde_arena_finish(&arena);
}

/* ---- JSON ---- */

static const Querier__V1__SelectSeriesRequest *request;

static sonde_err read_json(const char *text) {
    ProtobufCMessage *message = NULL;
    if (request)
        protobuf_c_message_free_unpacked((ProtobufCMessage *)(uintptr_t)request, NULL);
    sonde_err err = json_message_read(
        sonde_slice_of(text), &querier__v1__select_series_request__descriptor, &message, &diag);
    request = (const void *)message;
    return err;
}

TEST(json_is_read_as_a_message) {
    CHECK(!read_json("{\"profileTypeID\":\"a\",\"label_selector\":\"b\",\"start\":\"-5\",\"end\":7,"
                     "\"groupBy\":[\"x\",\"y\"],\"step\":1.5,\"limit\":null,\"more\":{\"a\":1}}"));
    CHECK_STR(request->profile_typeid, "a");
    CHECK_STR(request->label_selector, "b");
    CHECK_INT(request->start, ==, -5);
    CHECK_INT(request->end, ==, 7);
    CHECK_INT(request->n_group_by, ==, 2);
    CHECK_STR(request->group_by[1], "y");
    CHECK(request->step > 1.49 && request->step < 1.51);
    CHECK(!read_json(""));
    CHECK_STR(request->profile_typeid, "");
    CHECK(!read_json("{}"));
}

TEST(json_of_a_wrong_type_is_refused) {
    static const char *const bad[] = {"[]",
                                      "{",
                                      "{} x",
                                      "{\"start\":\"5x\"}",
                                      "{\"start\":\"\"}",
                                      "{\"start\":\"99999999999999999999\"}",
                                      "{\"start\":1.5}",
                                      "{\"start\":true}",
                                      "{\"groupBy\":\"x\"}",
                                      "{\"groupBy\":[5]}",
                                      "{\"groupBy\":[null]}",
                                      "{\"step\":\"1\"}",
                                      "{\"labelSelector\":\"\\u0000\"}"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (read_json(bad[i]) != SONDE_INVALID_ARGUMENT)
            check_fail(__FILE__, __LINE__, "%s was read", bad[i]);
}
