/* SPDX-License-Identifier: Apache-2.0
 *
 * Pyroscope's older paths: /pyroscope/render, /pyroscope/render-diff and /pyroscope/label-values. A
 * query is a type and a selector: process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name="a"}. */
#include "api/json/json.h"
#include "api/profile/event.h"
#include "gateway/families/grafana/dot.h"
#include "gateway/families/grafana/flame_reply.h"
#include "gateway/families/grafana/grafana_select.h"
#include "gateway/families/history/history_query.h"
#include "gateway/handlers.h"
#include "gateway/reply/reply.h"

#include <string.h>

#define DOT_TYPE "text/vnd.graphviz; charset=utf-8"

/* ---- Answers ---- */

static void append_names(struct sonde_buf *out, const Querier__V1__FlameGraphDiff *graph) {
    for (size_t i = 0; i < graph->n_names; i++) {
        sonde_buf_puts(out, i ? "," : "");
        sonde_json_string(out, sonde_slice_of(graph->names[i]));
    }
}

static void append_levels(struct sonde_buf *out, const Querier__V1__FlameGraphDiff *graph) {
    for (size_t i = 0; i < graph->n_levels; i++) {
        const Querier__V1__Level *level = graph->levels[i];
        sonde_buf_puts(out, i ? ",[" : "[");
        for (size_t j = 0; j < level->n_values; j++)
            sonde_buf_printf(out, "%s%lld", j ? "," : "", (long long)level->values[j]);
        sonde_buf_putc(out, ']');
    }
}

static void answer_json(struct flame_reply *reply, Querier__V1__FlameGraphDiff *graph) {
    static const struct http_answer answer = {.status = 200, .content_type = REPLY_JSON};
    bool is_bytes = reply->event && strcmp(reply->event->amount.type.unit, "bytes") == 0;
    struct sonde_buf out = {0};
    sonde_buf_puts(&out, "{\"version\":1,\"flamebearer\":{\"names\":[");
    append_names(&out, graph);
    sonde_buf_puts(&out, "],\"levels\":[");
    append_levels(&out, graph);
    sonde_buf_printf(&out, "],\"numTicks\":%lld,\"maxSelf\":%lld},", (long long)graph->total,
                     (long long)graph->max_self);
    sonde_buf_printf(&out,
                     "\"metadata\":{\"format\":\"%s\",\"spyName\":\"sonde\",\"sampleRate\":"
                     "1000000000,\"units\":\"%s\",\"name\":\"%s\"}",
                     reply->is_diff ? "double" : "single", is_bytes ? "bytes" : "samples",
                     reply->event ? reply->event->amount.type.type : "");
    if (reply->is_diff)
        sonde_buf_printf(&out, ",\"leftTicks\":%lld,\"rightTicks\":%lld",
                         (long long)graph->leftticks, (long long)graph->rightticks);
    sonde_buf_puts(&out, ",\"timeline\":null,\"groups\":null}\n");
    http_answer_take(relay_take_request(&reply->connect.relay), &answer, &out);
}

static void answer_dot(struct flame_reply *reply, Querier__V1__FlameGraphDiff *graph) {
    static const struct http_answer answer = {.status = 200, .content_type = DOT_TYPE};
    struct sonde_buf out = {0};
    dot_append(&out, &reply->tree);
    http_answer_take(relay_take_request(&reply->connect.relay), &answer, &out);
}

/* ---- Requests ---- */

/* The keys of one side of a request. */
struct keys {
    const char *query, *from, *until;
};

static const struct keys plain = {"query", "from", "until"};
static const struct keys left = {"leftQuery", "leftFrom", "leftUntil"};
static const struct keys right = {"rightQuery", "rightFrom", "rightUntil"};

static sonde_err read_times(const struct query *query, const struct keys *keys,
                            Sonde__V1__Selection *selection, struct sonde_diag *diag) {
    int64_t now = history_now();
    sonde_err err = history_read_time(query, keys->from, now, &selection->from_unix_ns, diag);
    if (!err)
        err = history_read_time(query, keys->until, now, &selection->until_unix_ns, diag);
    if (!err && selection->from_unix_ns >= selection->until_unix_ns)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s must be before %s", keys->from,
                         keys->until);
    return err;
}

/* Cuts the selector off the query. */
static sonde_err read_side(const struct query *query, const struct keys *keys,
                           struct sonde_arena *arena, Sonde__V1__Selection *selection,
                           struct sonde_diag *diag) {
    char *text = NULL;
    *selection = history_default_selection();
    sonde_err err = history_read_text(query, keys->query, arena, &text, diag);
    if (!err && !text)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "%s is required", keys->query);
    if (err)
        return err;
    char *selector = text + strcspn(text, "{");
    char *own = sonde_arena_dup(arena, text, (size_t)(selector - text));
    if (!own)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    err = grafana_read_type(own, selection, diag);
    if (!err)
        err = grafana_read_matchers(&selector, 1, arena, selection, diag);
    return err ? err : read_times(query, keys, selection, diag);
}

/* "max-nodes" is Pyroscope's older spelling. */
static sonde_err read_nodes(const struct query *query, uint64_t *nodes, struct sonde_diag *diag) {
    *nodes = 0;
    sonde_err err = query_whole(query, "max-nodes", 0, INT32_MAX, nodes, diag);
    return err ? err : query_whole(query, "maxNodes", 0, INT32_MAX, nodes, diag);
}

static sonde_err read_format(const struct query *query, bool may_be_dot, bool *is_dot,
                             struct sonde_diag *diag) {
    struct sonde_slice format;
    char quoted[QUERY_QUOTED_SIZE];
    *is_dot = false;
    if (!query_get(query, "format", &format) || sonde_slice_equals(format, "json"))
        return SONDE_OK;
    *is_dot = may_be_dot && sonde_slice_equals(format, "dot");
    return *is_dot ? SONDE_OK
                   : sonde_fail(diag, SONDE_INVALID_ARGUMENT, "format: \"%.190s\" is not %s",
                                query_quote(format, quoted), may_be_dot ? "json or dot" : "json");
}

/* HEAD gets the answer of GET without its body. */
void handle_pyroscope_render(const struct request_context *context) {
    Sonde__V1__Selection selection;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    uint64_t nodes;
    bool is_dot;
    sonde_err err = read_side(&context->query, &plain, &arena, &selection, &diag);
    if (!err)
        err = read_nodes(&context->query, &nodes, &diag);
    if (!err)
        err = read_format(&context->query, true, &is_dot, &diag);
    if (err)
        reply_error(context->request, context->family, err, &diag);
    else
        flame_reply_ask(context, NULL, &selection, (int64_t)nodes,
                        is_dot ? answer_dot : answer_json);
    sonde_arena_finish(&arena);
}

void handle_pyroscope_diff(const struct request_context *context) {
    Sonde__V1__Selection base, selection;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    uint64_t nodes;
    bool is_dot;
    sonde_err err = read_side(&context->query, &left, &arena, &base, &diag);
    if (!err)
        err = read_side(&context->query, &right, &arena, &selection, &diag);
    if (!err)
        err = read_nodes(&context->query, &nodes, &diag);
    if (!err)
        err = read_format(&context->query, false, &is_dot, &diag);
    if (err)
        reply_error(context->request, context->family, err, &diag);
    else
        flame_reply_ask(context, &base, &selection, (int64_t)nodes, answer_json);
    sonde_arena_finish(&arena);
}

/* ---- Values of a label ---- */

static void on_values(struct relay *relay, const ProtobufCMessage *message) {
    static const struct http_answer answer = {.status = 200, .content_type = REPLY_JSON};
    const Sonde__V1__ListLabelValuesResponse *list = (const void *)message;
    struct sonde_buf out = {0};
    sonde_buf_putc(&out, '[');
    for (size_t i = 0; i < list->n_values; i++) {
        sonde_buf_puts(&out, i ? "," : "");
        sonde_json_string(&out, sonde_slice_of(list->values[i]));
    }
    sonde_buf_puts(&out, "]\n");
    http_answer_take(relay_take_request(relay), &answer, &out);
}

void handle_pyroscope_label_values(const struct request_context *context) {
    static const struct relay_events events = {on_values, history_on_end, NULL};
    Sonde__V1__ListLabelValuesRequest request = SONDE__V1__LIST_LABEL_VALUES_REQUEST__INIT;
    Sonde__V1__Selection selection = history_default_selection();
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    char *label = NULL;
    sonde_err err = history_read_text(&context->query, "label", &arena, &label, &diag);
    if (!err && (!label || !*label))
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT, "label is required");
    if (!err)
        err = read_times(&context->query, &plain, &selection, &diag);
    if (err) {
        reply_error(context->request, context->family, err, &diag);
    } else {
        request.name = (char *)(uintptr_t)grafana_label_to_sonde(label);
        request.from_unix_ns = selection.from_unix_ns;
        request.until_unix_ns = selection.until_unix_ns;
        relay_call(relay_create(context, sizeof(struct relay), &events), &client_list_label_values,
                   &request.base, HISTORY_DEADLINE_MS);
    }
    sonde_arena_finish(&arena);
}
