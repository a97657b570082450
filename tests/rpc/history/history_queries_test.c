/* SPDX-License-Identifier: Apache-2.0
 *
 * QueryTree, QueryDiff, QuerySeries, QueryTop and the lists, over a store in memory. */
#include "tests/rpc/history/history_setup.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>

static struct history_setup scene;

static void store_and_destroy(struct recording *recording) {
    Sonde__V1__WriteResponse *response = history_write(&scene, recording_request(recording));
    CHECK_INT(response->rejected, ==, 0);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    recording_destroy(recording);
}

static void begin(void) {
    struct recording *recording = recording_create();
    history_setup_begin(&scene, true);
    recording_window(recording, &(struct recorded){.begin_unix_s = 3600, .pod = "a"});
    recording_row(recording, "main;serve;read", "io", 3000);
    recording_row(recording, "main;serve;read;read", "io", 1000);
    recording_row(recording, "main;idle", "main", 500);
    recording_window(recording, &(struct recorded){.begin_unix_s = 3630, .pod = "b"});
    recording_row(recording, "main;serve;read", "io", 2000);
    recording_window(recording, &(struct recorded){.service = "nginx", .host = "beta", .pid = 2});
    recording_row(recording, "start;loop", "worker", 700);
    store_and_destroy(recording);
}

/* ---- Trees ---- */

static struct {
    Sonde__V1__Tree *parts[64];
    size_t count;
} tree;

static bool on_tree(struct watcher *watcher, const ProtobufCMessage *message) {
    size_t len = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(len + 1);
    CHECK_INT(len, <=, 512 << 10);
    CHECK_INT(tree.count, <, 64);
    protobuf_c_message_pack(message, packed);
    tree.parts[tree.count++] = sonde__v1__tree__unpack(NULL, len, packed);
    free(packed);
    return true;
}

static void forget_tree(void) {
    for (size_t i = 0; i < tree.count; i++)
        sonde__v1__tree__free_unpacked(tree.parts[i], NULL);
    tree.count = 0;
}

static sonde_err ask_tree(const Sonde__V1__QueryTreeRequest *request, struct sonde_diag *diag) {
    struct watcher watcher = {.on_message = on_tree};
    forget_tree();
    watcher_start(&watcher, scene.base.client, &client_query_tree, &request->base, 30000);
    return watcher_end(&watcher, diag);
}

/* The node of the first part at this path; -1 if there is none. */
static int node_at(const char *path) {
    const Sonde__V1__Tree *part = tree.parts[0];
    char names[200], *rest, *name;
    size_t at = 0;
    snprintf(names, sizeof names, "%s", path);
    for (name = strtok_r(names, ";", &rest); name; name = strtok_r(NULL, ";", &rest)) {
        size_t i = at + 1;
        while (i < part->n_function &&
               (part->parent[i] != at || strcmp(part->functions[part->function[i]], name) != 0))
            i++;
        if (i == part->n_function)
            return -1;
        at = i;
    }
    return (int)at;
}

TEST(query_tree_returns_columns_with_the_root_first) {
    Sonde__V1__QueryTreeRequest request = SONDE__V1__QUERY_TREE_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    begin();
    selection.service = "redis";
    request.selection = &selection;
    CHECK_INT(ask_tree(&request, NULL), ==, SONDE_OK);
    const Sonde__V1__Tree *part = tree.parts[0];
    CHECK_INT(tree.count, ==, 1);
    CHECK_STR(part->unit, "nanoseconds");
    CHECK_INT(part->total[0], ==, 6500);
    CHECK_INT(part->self[0], ==, 0);
    CHECK_INT(part->parent[0], ==, 0);
    CHECK_INT(part->n_total, ==, part->n_function);
    CHECK_INT(part->n_kind, ==, part->n_function);
    CHECK_INT(part->n_base_total, ==, 0);
    CHECK_INT(node_at("main;serve"), ==, -1); /* threads are the first level */
    CHECK_INT(part->completeness->windows_received, ==, 2);
    CHECK_INT(part->completeness->trimmed_nodes, ==, 0);
    request.merge_threads = true;
    CHECK_INT(ask_tree(&request, NULL), ==, SONDE_OK);
    part = tree.parts[0];
    CHECK_INT(part->n_function, ==, 6);
    CHECK_INT(part->total[node_at("main;serve;read")], ==, 6000);
    CHECK_INT(part->self[node_at("main;serve;read")], ==, 5000);
    CHECK_INT(part->total[node_at("main;serve;read;read")], ==, 1000);
    CHECK_INT(part->self[node_at("main;idle")], ==, 500);
    CHECK_INT(part->kind[node_at("main")], ==, SONDE__V1__FRAME_KIND__APPLICATION);
    forget_tree();
    history_setup_end(&scene);
}

TEST(query_tree_has_the_values_of_a_base) {
    Sonde__V1__QueryTreeRequest request = SONDE__V1__QUERY_TREE_REQUEST__INIT;
    Sonde__V1__Selection now = SONDE__V1__SELECTION__INIT, base = SONDE__V1__SELECTION__INIT;
    begin();
    now.selector = "pod = 'a'";
    base.selector = "pod = 'b'";
    request.selection = &now;
    request.base_selection = &base;
    request.merge_threads = true;
    CHECK_INT(ask_tree(&request, NULL), ==, SONDE_OK);
    const Sonde__V1__Tree *part = tree.parts[0];
    CHECK_INT(part->total[0], ==, 4500);
    CHECK_INT(part->base_total[0], ==, 2000);
    CHECK_INT(part->base_self[0], ==, 0);
    CHECK_INT(part->base_self[node_at("main;serve;read")], ==, 2000);
    CHECK_INT(part->base_total[node_at("main;idle")], ==, 0);
    forget_tree();
    history_setup_end(&scene);
}

TEST(query_tree_keeps_the_largest_nodes_and_counts_the_others) {
    Sonde__V1__QueryTreeRequest request = SONDE__V1__QUERY_TREE_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    begin();
    selection.service = "redis";
    request.selection = &selection;
    request.merge_threads = true;
    request.max_nodes = 4; /* all, main, serve, read; not: read in read, idle */
    CHECK_INT(ask_tree(&request, NULL), ==, SONDE_OK);
    const Sonde__V1__Tree *part = tree.parts[0];
    CHECK_INT(part->completeness->trimmed_nodes, ==, 2);
    CHECK_INT(part->n_function, ==, 6);
    CHECK_INT(node_at("main;idle"), ==, -1);
    CHECK_INT(part->total[node_at("main;other")], ==, 500);
    CHECK_INT(part->self[node_at("main;serve;read;other")], ==, 1000);
    CHECK_INT(part->total[node_at("main")], ==, 6500);
    forget_tree();
    history_setup_end(&scene);
}

TEST(a_large_tree_arrives_in_parts_that_continue_each_other) {
    enum { FUNCTIONS = 1400, NAME = 800 };
    Sonde__V1__QueryTreeRequest request = SONDE__V1__QUERY_TREE_REQUEST__INIT;
    char stack[NAME + 32];
    size_t nodes = 0, functions = 0;
    int64_t self = 0;
    struct recording *recording = recording_create();
    history_setup_begin(&scene, true);
    recording_window(recording, &(struct recorded){.begin_unix_s = 3600});
    for (int i = 0; i < FUNCTIONS; i++) {
        snprintf(stack, sizeof stack, "main;a_long_name_%0*d", NAME, i);
        recording_row(recording, stack, "io", 1);
    }
    store_and_destroy(recording);
    request.merge_threads = true;
    CHECK_INT(ask_tree(&request, NULL), ==, SONDE_OK);
    CHECK_INT(tree.count, >=, 3);
    for (size_t i = 0; i < tree.count; i++) {
        const Sonde__V1__Tree *part = tree.parts[i];
        functions += part->n_functions;
        for (size_t j = 0; j < part->n_function; j++) {
            CHECK_INT(part->function[j], <, functions);
            self += part->self[j];
        }
        nodes += part->n_function;
        CHECK_INT(part->completeness != NULL, ==, i == 0);
        CHECK_STR(part->unit, i == 0 ? "nanoseconds" : "");
    }
    CHECK_INT(nodes, ==, FUNCTIONS + 2);
    CHECK_INT(functions, ==, FUNCTIONS + 2);
    CHECK_INT(self, ==, FUNCTIONS);
    forget_tree();
    history_setup_end(&scene);
}

/* ---- Differences ---- */

static const char *diff(Sonde__V1__Selection *base, Sonde__V1__Selection *now, bool growth_only) {
    Sonde__V1__QueryDiffRequest request = SONDE__V1__QUERY_DIFF_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    request.base_selection = base;
    request.selection = now;
    request.rendering = &rendering;
    request.growth_only = growth_only;
    CHECK_INT(history_profile(&scene, &client_query_diff, &request.base, NULL), ==, SONDE_OK);
    return scene.document.data;
}

TEST(query_diff_compares_rates_and_not_sums) {
    Sonde__V1__Selection base = SONDE__V1__SELECTION__INIT, now = SONDE__V1__SELECTION__INIT;
    history_setup_begin(&scene, true);
    struct recording *recording = recording_create();
    for (int i = 0; i < 3; i++) { /* 30 s with 1,000 a window */
        recording_window(recording, &(struct recorded){.begin_unix_s = 3600 + 10 * i});
        recording_row(recording, "main;same", "io", 1000);
        recording_row(recording, "main;less", "io", 300);
    }
    recording_window(recording, &(struct recorded){.begin_unix_s = 7200});
    recording_row(recording, "main;same", "io", 1000);
    recording_row(recording, "main;less", "io", 100);
    recording_row(recording, "main;more", "io", 70);
    store_and_destroy(recording);
    base.until_unix_ns = now.from_unix_ns = 7200000000000;
    const char *text = diff(&base, &now, false);
    CHECK(strstr(text, "same") == NULL);
    CHECK(strstr(text, "main;less -200\n") != NULL);
    CHECK(strstr(text, "main;more 70\n") != NULL);
    text = diff(&base, &now, true);
    CHECK(strstr(text, "less") == NULL);
    CHECK(strstr(text, "main;more 70\n") != NULL);
    CHECK_INT(scene.start->completeness->windows_received, ==, 1);
    history_setup_end(&scene);
}

/* Three processes of one version, and one of the other, in the same ten seconds. */
TEST(query_diff_of_two_selectors_compares_processes) {
    Sonde__V1__Selection base = SONDE__V1__SELECTION__INIT, now = SONDE__V1__SELECTION__INIT;
    history_setup_begin(&scene, true);
    struct recording *recording = recording_create();
    for (uint32_t i = 0; i < 3; i++) {
        recording_window(recording,
                         &(struct recorded){.begin_unix_s = 3600, .pid = i + 1, .pod = "old"});
        recording_row(recording, "main;same", "io", 1000);
        recording_row(recording, "main;less", "io", 300);
    }
    recording_window(recording, &(struct recorded){.begin_unix_s = 3600, .pid = 4, .pod = "new"});
    recording_row(recording, "main;same", "io", 1000);
    recording_row(recording, "main;less", "io", 100);
    store_and_destroy(recording);
    base.selector = "pod = 'old'";
    now.selector = "pod = 'new'";
    const char *text = diff(&base, &now, false);
    CHECK(strstr(text, "same") == NULL);
    CHECK(strstr(text, "main;less -200\n") != NULL);
    history_setup_end(&scene);
}

/* Windows of a side vary by more than the change, which only they can show. */
TEST(query_diff_judges_changes_by_parts_of_the_time) {
    static const int64_t less[] = {100, 900, 200, 800, 150, 850},
                         more[] = {300, 950, 250, 900, 200, 980};
    Sonde__V1__Selection base = SONDE__V1__SELECTION__INIT, now = SONDE__V1__SELECTION__INIT;
    Sonde__V1__QueryDiffRequest request = SONDE__V1__QUERY_DIFF_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    history_setup_begin(&scene, true);
    struct recording *recording = recording_create();
    for (int i = 0; i < 12; i++) {
        recording_window(recording, &(struct recorded){.begin_unix_s = 3600 + 10 * i});
        recording_row(recording, "main;burst", "io", i < 6 ? less[i] : more[i - 6]);
        recording_row(recording, "main;same", "io", 1000);
    }
    store_and_destroy(recording);
    base.until_unix_ns = now.from_unix_ns = 3660000000000;
    rendering.format = SONDE__V1__FORMAT__CHANGES;
    request.base_selection = &base;
    request.selection = &now;
    request.rendering = &rendering;
    CHECK_INT(history_profile(&scene, &client_query_diff, &request.base, NULL), ==, SONDE_OK);
    const char *text = strstr(scene.document.data, "\"blocks\":6}");
    CHECK(text != NULL && strstr(text + 1, "\"blocks\":6}") != NULL);
    CHECK(strstr(scene.document.data, "\"verdict\":\"within noise\"") != NULL);
    CHECK(strstr(scene.document.data, "\"verdict\":\"more\"") == NULL);
    history_setup_end(&scene);
}

TEST(query_diff_does_not_scale_states) {
    Sonde__V1__Selection base = SONDE__V1__SELECTION__INIT, now = SONDE__V1__SELECTION__INIT;
    history_setup_begin(&scene, true);
    struct recording *recording = recording_create();
    for (int i = 0; i < 4; i++) {
        recording_window(recording,
                         &(struct recorded){.event = "mem-inuse", .begin_unix_s = 3600 + 10 * i});
        recording_row(recording, "main;keep", "", 4096);
    }
    store_and_destroy(recording);
    base.event = now.event = "mem-inuse";
    base.until_unix_ns = now.from_unix_ns = 3630000000000;
    CHECK_STR(diff(&base, &now, false), "[no samples] 0\n");
    history_setup_end(&scene);
}

/* ---- Series ---- */

static Sonde__V1__QuerySeriesResponse *series(Sonde__V1__QuerySeriesRequest *request,
                                              sonde_err *err, struct sonde_diag *diag) {
    return history_ask(&scene, &client_query_series, &request->base, err, diag);
}

TEST(query_series_sums_by_step_and_label) {
    Sonde__V1__QuerySeriesRequest request = SONDE__V1__QUERY_SERIES_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    char *labels[] = {"pod"};
    begin();
    selection.until_unix_ns = 4000000000000;
    request.selection = &selection;
    request.step_s = 25; /* which becomes 30 */
    Sonde__V1__QuerySeriesResponse *response = series(&request, NULL, NULL);
    CHECK_INT(response->step_s, ==, 30);
    CHECK_STR(response->unit, "nanoseconds");
    CHECK_INT(response->n_series, ==, 1);
    CHECK_INT(response->series[0]->n_labels, ==, 0);
    CHECK_INT(response->series[0]->n_value, ==, 2);
    CHECK_INT(response->series[0]->time_unix_s[0], ==, 3600);
    CHECK_INT(response->series[0]->value[0], ==, 5200);
    CHECK_INT(response->series[0]->time_unix_s[1], ==, 3630);
    CHECK_INT(response->series[0]->value[1], ==, 2000);
    CHECK_INT(response->completeness->windows_received, ==, 3);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    request.group_by = labels;
    request.n_group_by = 1;
    request.limit = 2;
    response = series(&request, NULL, NULL);
    CHECK_INT(response->n_series, ==, 2);
    CHECK_INT(response->omitted, ==, 1);
    CHECK_STR(response->series[0]->labels[0]->name, "pod");
    CHECK_STR(response->series[0]->labels[0]->value, "a");
    protobuf_c_message_free_unpacked(&response->base, NULL);
    history_setup_end(&scene);
}

TEST(query_series_refuses_what_is_out_of_bounds) {
    Sonde__V1__QuerySeriesRequest request = SONDE__V1__QUERY_SERIES_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    struct sonde_diag diag = {0};
    char *labels[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"}, *unnamed[] = {""};
    sonde_err err;
    begin();
    request.selection = &selection;
    selection.until_unix_ns = 4000000000000;
    request.step_s = 9;
    CHECK(series(&request, &err, &diag) == NULL);
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "step_s") != NULL);
    request.step_s = 86401;
    CHECK(series(&request, &err, &diag) == NULL);
    request.step_s = 10;
    request.limit = 10001;
    CHECK(series(&request, &err, &diag) == NULL);
    CHECK(strstr(diag.text, "limit") != NULL);
    request.limit = 0;
    request.group_by = labels;
    request.n_group_by = 9;
    CHECK(series(&request, &err, &diag) == NULL);
    CHECK(strstr(diag.text, "group_by: 9 labels") != NULL);
    request.group_by = unnamed;
    request.n_group_by = 1;
    CHECK(series(&request, &err, &diag) == NULL);
    request.n_group_by = 0;
    selection.from_unix_ns = 1;
    selection.until_unix_ns = 200000000000000;
    CHECK(series(&request, &err, &diag) == NULL);
    CHECK(strstr(diag.text, "steps of 10 s; the limit is 11000") != NULL);
    selection.until_unix_ns = 0;
    selection.host_totals = true;
    CHECK(series(&request, &err, &diag) == NULL);
    CHECK(strstr(diag.text, "host_totals") != NULL);
    history_setup_end(&scene);
}

/* ---- Functions ---- */

TEST(query_top_counts_recursion_once) {
    Sonde__V1__QueryTopRequest request = SONDE__V1__QUERY_TOP_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    sonde_err err;
    begin();
    selection.service = "redis";
    request.selection = &selection;
    Sonde__V1__QueryTopResponse *response =
        history_ask(&scene, &client_query_top, &request.base, NULL, NULL);
    CHECK_INT(response->n_functions, ==, 4);
    CHECK_STR(response->functions[0]->name, "read");
    CHECK_STR(response->functions[0]->file, "main.c");
    CHECK_STR(response->functions[0]->module, "/bin/redis");
    CHECK_INT(response->functions[0]->self, ==, 6000);
    CHECK_INT(response->functions[0]->total, ==, 6000);
    CHECK_STR(response->functions[1]->name, "idle");
    CHECK_INT(response->total, ==, 6500);
    CHECK_INT(response->omitted, ==, 0);
    CHECK_STR(response->unit, "nanoseconds");
    protobuf_c_message_free_unpacked(&response->base, NULL);
    request.by_total = true;
    request.limit = 1;
    response = history_ask(&scene, &client_query_top, &request.base, NULL, NULL);
    CHECK_INT(response->n_functions, ==, 1);
    CHECK_STR(response->functions[0]->name, "main");
    CHECK_INT(response->functions[0]->self, ==, 0);
    CHECK_INT(response->omitted, ==, 3);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    request.limit = 10001;
    CHECK(history_ask(&scene, &client_query_top, &request.base, &err, NULL) == NULL);
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    history_setup_end(&scene);
}

/* ---- Lists ---- */

TEST(the_lists_have_what_was_recorded) {
    Sonde__V1__ListServicesRequest services = SONDE__V1__LIST_SERVICES_REQUEST__INIT;
    Sonde__V1__ListLabelsRequest names = SONDE__V1__LIST_LABELS_REQUEST__INIT;
    Sonde__V1__ListLabelValuesRequest values = SONDE__V1__LIST_LABEL_VALUES_REQUEST__INIT;
    sonde_err err;
    begin();
    Sonde__V1__ListServicesResponse *listed =
        history_ask(&scene, &client_list_services, &services.base, NULL, NULL);
    CHECK_INT(listed->n_services, ==, 2);
    CHECK_STR(listed->services[0]->name, "nginx");
    CHECK_STR(listed->services[1]->name, "redis");
    CHECK_STR(listed->services[1]->events[0], "on-cpu");
    CHECK_INT(listed->services[1]->hosts, ==, 1);
    CHECK_INT(listed->services[1]->first_unix_ns, ==, 3600000000000);
    CHECK_INT(listed->services[1]->last_unix_ns, ==, 3640000000000);
    CHECK_INT(listed->services[1]->on_cpu_ns, ==, 6500);
    protobuf_c_message_free_unpacked(&listed->base, NULL);
    services.selector = "service = 'redis'";
    listed = history_ask(&scene, &client_list_services, &services.base, NULL, NULL);
    CHECK_INT(listed->n_services, ==, 1);
    protobuf_c_message_free_unpacked(&listed->base, NULL);
    Sonde__V1__ListLabelsResponse *labels =
        history_ask(&scene, &client_list_labels, &names.base, NULL, NULL);
    bool has_pod = false;
    for (size_t i = 0; i < labels->n_names; i++)
        has_pod = has_pod || strcmp(labels->names[i], "pod") == 0;
    CHECK(has_pod);
    protobuf_c_message_free_unpacked(&labels->base, NULL);
    values.name = "pod";
    Sonde__V1__ListLabelValuesResponse *found =
        history_ask(&scene, &client_list_label_values, &values.base, NULL, NULL);
    CHECK_INT(found->n_values, >=, 2);
    CHECK_STR(found->values[found->n_values - 1], "b");
    CHECK(!found->is_cut);
    protobuf_c_message_free_unpacked(&found->base, NULL);
    values.name = "";
    CHECK(history_ask(&scene, &client_list_label_values, &values.base, &err, NULL) == NULL);
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    values.name = "pod";
    values.selector = "(";
    CHECK(history_ask(&scene, &client_list_label_values, &values.base, &err, NULL) == NULL);
    CHECK_INT(err, ==, SONDE_INVALID_ARGUMENT);
    history_setup_end(&scene);
}

TEST(the_info_reports_what_is_kept) {
    Sonde__V1__GetHistoryInfoRequest request = SONDE__V1__GET_HISTORY_INFO_REQUEST__INIT;
    begin();
    Sonde__V1__HistoryInfo *info =
        history_ask(&scene, &client_get_history_info, &request.base, NULL, NULL);
    CHECK_INT(info->windows, ==, 3);
    CHECK_INT(info->samples, ==, 5);
    CHECK_INT(info->hosts, ==, 2);
    CHECK_INT(info->first_unix_ns, ==, 3600000000000);
    CHECK_INT(info->recording_targets, ==, 0);
    CHECK_STR(info->trouble, "");
    protobuf_c_message_free_unpacked(&info->base, NULL);
    history_setup_end(&scene);
}
