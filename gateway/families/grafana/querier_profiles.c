/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles for Grafana: values over time, flame graphs, differences and pprof. */
#include "api/profile/event.h"
#include "gateway/families/grafana/flame_reply.h"
#include "gateway/families/grafana/grafana_select.h"
#include "gateway/families/history/history_query.h"
#include "gateway/handlers.h"
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"

#include <stdlib.h>
#include <string.h>

#define MAX_GROUPS  8
#define MAX_SERIES  10000
#define TREE_FORMAT 2

static void free_message(ProtobufCMessage *message) {
    protobuf_c_message_free_unpacked(message, NULL);
}

static void refuse(const struct request_context *context, sonde_err err,
                   const struct sonde_diag *diag) {
    reply_error(context->request, context->family, err, diag);
}

static sonde_err read_selection(const char *type_id, char *selector, int64_t start, int64_t end,
                                struct sonde_arena *arena, Sonde__V1__Selection *selection,
                                struct sonde_diag *diag) {
    sonde__v1__selection__init(selection);
    sonde_err err = grafana_read_type(type_id, selection, diag);
    if (!err)
        err = grafana_read_range(start, end, selection, diag);
    return err ? err : grafana_read_matchers(&selector, 1, arena, selection, diag);
}

/* ---- SelectSeries ---- */

static void fill_labels(Querier__V1__TimeSeries *out, const Sonde__V1__Series *series,
                        struct sonde_arena *arena) {
    size_t count = series->n_labels;
    Querier__V1__LabelPair *pairs = sonde_arena_alloc(arena, count * sizeof *pairs);
    out->labels = sonde_arena_alloc(arena, count * sizeof out->labels[0]);
    for (size_t i = 0; pairs && out->labels && i < count; i++) {
        const struct sonde_event *event = sonde_event_find(series->labels[i]->value);
        bool is_event = strcmp(series->labels[i]->name, "event") == 0;
        querier__v1__label_pair__init(&pairs[i]);
        pairs[i].name = (char *)(uintptr_t)grafana_label_from_sonde(series->labels[i]->name);
        pairs[i].value =
            is_event && event ? (char *)(uintptr_t)event->pyroscope_id : series->labels[i]->value;
        out->labels[out->n_labels++] = &pairs[i];
    }
}

static void fill_points(Querier__V1__TimeSeries *out, const Sonde__V1__Series *series,
                        struct sonde_arena *arena) {
    size_t count =
        series->n_value < series->n_time_unix_s ? series->n_value : series->n_time_unix_s;
    Querier__V1__Point *points = sonde_arena_alloc(arena, count * sizeof *points);
    out->points = sonde_arena_alloc(arena, count * sizeof out->points[0]);
    for (size_t i = 0; points && out->points && i < count; i++) {
        querier__v1__point__init(&points[i]);
        points[i].value = (double)series->value[i];
        points[i].timestamp = (int64_t)((uint64_t)series->time_unix_s[i] * 1000);
        out->points[out->n_points++] = &points[i];
    }
}

static void on_series(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__QuerySeriesResponse *answer = (const void *)message;
    Querier__V1__SelectSeriesResponse response = QUERIER__V1__SELECT_SERIES_RESPONSE__INIT;
    struct sonde_arena arena = {0};
    size_t count = answer->n_series;
    Querier__V1__TimeSeries *all = sonde_arena_alloc(&arena, count * sizeof *all);
    response.series = sonde_arena_alloc(&arena, count * sizeof response.series[0]);
    for (size_t i = 0; all && response.series && i < count; i++) {
        querier__v1__time_series__init(&all[i]);
        fill_labels(&all[i], answer->series[i], &arena);
        fill_points(&all[i], answer->series[i], &arena);
        response.series[response.n_series++] = &all[i];
    }
    connect_answer((struct connect *)relay, &response.base);
    sonde_arena_finish(&arena);
}

static sonde_err read_groups(const Querier__V1__SelectSeriesRequest *request,
                             char *groups[MAX_GROUPS], struct sonde_diag *diag) {
    if (request->n_group_by > MAX_GROUPS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "group_by: at most %d labels", MAX_GROUPS);
    for (size_t i = 0; i < request->n_group_by; i++) {
        if (!grafana_is_text(request->group_by[i]))
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "group_by: must be UTF-8");
        groups[i] = (char *)(uintptr_t)grafana_label_to_sonde(request->group_by[i]);
    }
    return SONDE_OK;
}

static uint32_t to_step(double seconds) {
    return seconds >= 86400 ? 86400 : seconds >= 10 ? (uint32_t)seconds : seconds > 0 ? 10 : 0;
}

void handle_querier_select_series(const struct request_context *context) {
    static const struct relay_events events = {on_series, history_on_end, NULL};
    ProtobufCMessage *message =
        connect_read(context, &querier__v1__select_series_request__descriptor);
    const Querier__V1__SelectSeriesRequest *request = (const void *)message;
    Sonde__V1__QuerySeriesRequest wanted = SONDE__V1__QUERY_SERIES_REQUEST__INIT;
    Sonde__V1__Selection selection;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    char *groups[MAX_GROUPS];
    if (!request)
        return;
    sonde_err err = read_selection(request->profile_typeid, request->label_selector, request->start,
                                   request->end, &arena, &selection, &diag);
    if (!err)
        err = read_groups(request, groups, &diag);
    wanted.selection = &selection;
    wanted.step_s = to_step(request->step);
    wanted.group_by = groups;
    wanted.n_group_by = request->n_group_by;
    wanted.limit =
        request->limit > 0 && request->limit < MAX_SERIES ? (uint32_t)request->limit : MAX_SERIES;
    if (err)
        refuse(context, err, &diag);
    else
        relay_call(connect_create(context, sizeof(struct connect), &events), &client_query_series,
                   &wanted.base, HISTORY_DEADLINE_MS);
    free_message(message);
    sonde_arena_finish(&arena);
}

/* ---- SelectMergeStacktraces and Diff ---- */

/* The same columns as a message of the plain form. */
static void answer_plain(struct flame_reply *reply, Querier__V1__FlameGraphDiff *graph) {
    Querier__V1__SelectMergeStacktracesResponse response =
        QUERIER__V1__SELECT_MERGE_STACKTRACES_RESPONSE__INIT;
    Querier__V1__FlameGraph plain = QUERIER__V1__FLAME_GRAPH__INIT;
    plain.names = graph->names;
    plain.n_names = graph->n_names;
    plain.levels = graph->levels;
    plain.n_levels = graph->n_levels;
    plain.total = graph->total;
    plain.max_self = graph->max_self;
    response.flamegraph = &plain;
    connect_answer(&reply->connect, &response.base);
}

static void answer_diff(struct flame_reply *reply, Querier__V1__FlameGraphDiff *graph) {
    Querier__V1__DiffResponse response = QUERIER__V1__DIFF_RESPONSE__INIT;
    response.flamegraph = graph;
    connect_answer(&reply->connect, &response.base);
}

static sonde_err check_stacks(bool is_selective, struct sonde_diag *diag) {
    return is_selective ? sonde_fail(diag, SONDE_UNIMPLEMENTED,
                                     "selecting stacks and profile ids is not supported")
                        : SONDE_OK;
}

static sonde_err read_stacktraces(const Querier__V1__SelectMergeStacktracesRequest *request,
                                  struct sonde_arena *arena, Sonde__V1__Selection *selection,
                                  struct sonde_diag *diag) {
    if (!request)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "left and right are required");
    sonde_err err = read_selection(request->profile_typeid, request->label_selector, request->start,
                                   request->end, arena, selection, diag);
    if (!err)
        err = check_stacks(
            (request->stack_trace_selector && request->stack_trace_selector->n_call_site > 0) ||
                request->n_profile_id_selector > 0,
            diag);
    if (!err && request->format == TREE_FORMAT)
        err = sonde_fail(diag, SONDE_UNIMPLEMENTED, "the format tree is not supported");
    return err;
}

void handle_querier_stacktraces(const struct request_context *context) {
    ProtobufCMessage *message =
        connect_read(context, &querier__v1__select_merge_stacktraces_request__descriptor);
    const Querier__V1__SelectMergeStacktracesRequest *request = (const void *)message;
    Sonde__V1__Selection selection;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    if (!request)
        return;
    sonde_err err = read_stacktraces(request, &arena, &selection, &diag);
    if (err)
        refuse(context, err, &diag);
    else
        flame_reply_ask(context, NULL, &selection, request->max_nodes, answer_plain);
    free_message(message);
    sonde_arena_finish(&arena);
}

void handle_querier_diff(const struct request_context *context) {
    ProtobufCMessage *message = connect_read(context, &querier__v1__diff_request__descriptor);
    const Querier__V1__DiffRequest *request = (const void *)message;
    Sonde__V1__Selection left, right;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    if (!request)
        return;
    sonde_err err = read_stacktraces(request->left, &arena, &left, &diag);
    if (!err)
        err = read_stacktraces(request->right, &arena, &right, &diag);
    if (err)
        refuse(context, err, &diag);
    else
        flame_reply_ask(context, &left, &right, request->left->max_nodes, answer_diff);
    free_message(message);
    sonde_arena_finish(&arena);
}

/* ---- SelectMergeProfile ---- */

static void refuse_profile(struct profile_reply *reply, sonde_err err,
                           const struct sonde_diag *diag) {
    history_on_end(&reply->relay, err, diag);
}

/* The answer is the pprof file, uncompressed, which is a google.v1.Profile. */
static void ask_profile(const struct request_context *context, Sonde__V1__Selection *selection) {
    static const struct profile_format format = {
        .id = SONDE__V1__FORMAT__PPROF, .raw = true, .media_type = "application/proto"};
    Sonde__V1__QueryProfileRequest wanted = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = profile_format_rendering(&format);
    struct profile_reply *reply = profile_reply_create(context, sizeof *reply, &format);
    reply->refuse = refuse_profile;
    wanted.selection = selection;
    wanted.rendering = &rendering;
    profile_reply_call(reply, &client_query_profile, &wanted.base, HISTORY_DEADLINE_MS);
}

void handle_querier_profile(const struct request_context *context) {
    ProtobufCMessage *message =
        connect_read(context, &querier__v1__select_merge_profile_request__descriptor);
    const Querier__V1__SelectMergeProfileRequest *request = (const void *)message;
    Sonde__V1__Selection selection;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    if (!request)
        return;
    sonde_err err = read_selection(request->profile_typeid, request->label_selector, request->start,
                                   request->end, &arena, &selection, &diag);
    if (!err)
        err = check_stacks(
            (request->stack_trace_selector && request->stack_trace_selector->n_call_site > 0) ||
                request->n_profile_id_selector > 0,
            &diag);
    if (!err && connect_is_json(context))
        err = sonde_fail(&diag, SONDE_UNIMPLEMENTED,
                         "SelectMergeProfile answers application/proto only");
    if (err)
        refuse(context, err, &diag);
    else
        ask_profile(context, &selection);
    free_message(message);
    sonde_arena_finish(&arena);
}

/* ---- What Sonde does not have ---- */

void handle_querier_unimplemented(const struct request_context *context) {
    static const struct sonde_diag diag = {.text = "profiles of spans and heat maps are not "
                                                   "recorded"};
    refuse(context, SONDE_UNIMPLEMENTED, &diag);
}
