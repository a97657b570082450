/* SPDX-License-Identifier: Apache-2.0
 *
 * DeepFlow's query of continuous profiles: POST /v1/profile/ProfileTracing. The service renders the
 * tree; the gateway passes it on in DeepFlow's envelope as it arrives. */
#include "api/base/clock.h"
#include "api/json/json.h"
#include "api/profile/event.h"
#include "gateway/families/history/history_query.h"
#include "gateway/families/history/tag_filter.h"
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"
#include "gateway/request/json_fields.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define MAX_TIME_S 9000000000
#define JSON_TYPE  "application/json; charset=utf-8"
#define INVALID    "INVALID_POST_DATA"
#define HOST_VIEW  "Total"

struct body {
    const char *app_service, *language, *event, *tag_filter, *group_by, *result_shape;
    int64_t time_start, time_end, max_kernel_stack_depth;
    bool debug;
};

#define FIELD(name, kind, required, member) \
    { name, JSON_##kind, required, offsetof(struct body, member) }

static const struct json_field fields[] = {
    FIELD("app_service", TEXT, true, app_service),
    FIELD("profile_language_type", TEXT, true, language),
    FIELD("profile_event_type", TEXT, true, event),
    FIELD("tag_filter", TEXT, false, tag_filter),
    FIELD("time_start", WHOLE, true, time_start),
    FIELD("time_end", WHOLE, true, time_end),
    FIELD("group_by", TEXT, false, group_by), /* without effect, in DeepFlow, too */
    FIELD("debug", FLAG, false, debug),
    FIELD("max_kernel_stack_depth", WHOLE, false, max_kernel_stack_depth),
    FIELD("result_shape", TEXT, false, result_shape),
};

struct tracing {
    struct profile_reply reply;
    bool debug;
    int64_t asked_ns; /* CLOCK_MONOTONIC */
};

/* ---- The answer ---- */

/* DeepFlow's field is tag_filter; the history's is selector. */
static void refuse_fields(struct http_request *request, const char *text) {
    static const char ours[] = "selector: ";
    struct sonde_diag diag;
    bool is_filter = strncmp(text, ours, sizeof ours - 1) == 0;
    snprintf(diag.text, sizeof diag.text, "%s%s", is_filter ? "tag_filter: " : "",
             text + (is_filter ? sizeof ours - 1 : 0));
    reply_status(request, FAMILY_TRACING, 400, INVALID, diag.text);
}

static void refuse(struct http_request *request, sonde_err err, const struct sonde_diag *diag) {
    err = history_explain(err, &diag);
    const char *text = sonde_diag_text(diag, err);
    switch (err) {
    case SONDE_INVALID_ARGUMENT:
        refuse_fields(request, text);
        break;
    case SONDE_UNAVAILABLE: /* the service itself, or, with a sentence, its store */
        reply_status(request, FAMILY_TRACING, diag && diag->text[0] ? 500 : 503, "FAIL", text);
        break;
    case SONDE_DEADLINE_EXCEEDED: /* limits of the store; the service names them */
    case SONDE_TOO_LARGE:
        reply_status(request, FAMILY_TRACING, 500, "FAIL", text);
        break;
    default:
        reply_error(request, FAMILY_TRACING, err, diag);
    }
}

static void on_refused(struct profile_reply *reply, sonde_err err, const struct sonde_diag *diag) {
    refuse(relay_take_request(&reply->relay), err, diag);
}

static void append_seconds(struct sonde_buf *out, int64_t ns) {
    ns = ns > 0 ? ns : 0;
    sonde_buf_printf(out, "\"%lld.%09llds\"", (long long)(ns / HISTORY_NS_PER_S),
                     (long long)(ns % HISTORY_NS_PER_S));
}

/* The time to format is what the call took beyond the query. */
static void append_debug(struct sonde_buf *out, const struct tracing *tracing,
                         const Sonde__V1__Completeness *completeness) {
    const char *statement = completeness ? completeness->statement : "";
    int64_t query_ns = completeness ? (int64_t)completeness->duration_ns : 0;
    sonde_buf_puts(out, "{\"querier_debug\":[{\"ip\":\"\",\"sql\":");
    sonde_json_string(out, sonde_slice_of(statement));
    sonde_buf_puts(out, ",\"sql_CH\":");
    sonde_json_string(out, sonde_slice_of(statement));
    sonde_buf_puts(out, ",\"query_time\":");
    append_seconds(out, query_ns);
    sonde_buf_puts(out, ",\"query_uuid\":\"\",\"error\":\"\"}],\"format_time\":");
    append_seconds(out, clock_ns(CLOCK_MONOTONIC) - tracing->asked_ns - query_ns);
    sonde_buf_putc(out, '}');
}

static void on_result(struct profile_reply *reply, const Sonde__V1__ResultStart *result) {
    const struct tracing *tracing = (const struct tracing *)reply;
    sonde_buf_puts(&reply->before, "{\"OPT_STATUS\":\"SUCCESS\",\"DESCRIPTION\":\"\",\"result\":");
    sonde_buf_puts(&reply->after, ",\"debug\":");
    if (tracing->debug)
        append_debug(&reply->after, tracing, result->completeness);
    else
        sonde_buf_puts(&reply->after, "null");
    sonde_buf_putc(&reply->after, '}');
}

/* ---- The request ---- */

static int64_t clamp(int64_t seconds) {
    return seconds < 1 ? 1 : seconds > MAX_TIME_S ? MAX_TIME_S : seconds;
}

/* DeepFlow's range includes both ends. A query that no window can match, because of its range or
 * language, is sent all the same, so that its filter is checked and a missing store reported. */
static void select_windows(const struct body *body, Sonde__V1__Selection *selection) {
    int64_t from = clamp(body->time_start), until = clamp(body->time_end) + 1;
    bool is_total = strcmp(body->app_service, HOST_VIEW) == 0;
    bool is_on_cpu = strcmp(body->event, sonde_events[SONDE_ON_CPU].name) == 0;
    bool is_void = strcmp(body->language, "eBPF") != 0 || body->time_start > body->time_end ||
                   (is_total && !is_on_cpu);
    selection->host_totals = is_total && !is_void;
    selection->service = (char *)(uintptr_t)(selection->host_totals ? "" : body->app_service);
    selection->event = (char *)(uintptr_t)(is_void ? SONDE_NO_EVENT : body->event);
    selection->selector = (char *)(uintptr_t)body->tag_filter;
    selection->from_unix_ns = (from < until ? from : until) * HISTORY_NS_PER_S;
    selection->until_unix_ns = (from < until ? until : from) * HISTORY_NS_PER_S;
}

static sonde_err read_shape(const char *shape, int *format, struct sonde_diag *diag) {
    char quoted[QUERY_QUOTED_SIZE];
    *format = strcmp(shape, "columnar") == 0 ? SONDE__V1__FORMAT__DEEPFLOW_COLUMNAR
                                             : SONDE__V1__FORMAT__DEEPFLOW_TREE;
    if (*shape && strcmp(shape, "columnar") != 0 && strcmp(shape, "tree") != 0)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "result_shape: \"%s\" is not one of tree, columnar",
                          query_quote(sonde_slice_of(shape), quoted));
    return SONDE_OK;
}

static void ask(const struct request_context *context, const struct body *body, int format) {
    const struct profile_format answer = {.id = format, .media_type = JSON_TYPE};
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    Sonde__V1__Rendering rendering = profile_format_rendering(&answer);
    select_windows(body, &selection);
    request.selection = &selection;
    request.rendering = &rendering;
    request.explain = body->debug;
    request.limit_kernel_frames = body->max_kernel_stack_depth >= 0;
    request.max_kernel_frames = body->max_kernel_stack_depth > INT32_MAX
                                    ? INT32_MAX
                                    : (int32_t)body->max_kernel_stack_depth;
    struct tracing *tracing = profile_reply_create(context, sizeof *tracing, &answer);
    tracing->debug = body->debug;
    tracing->reply.refuse = on_refused;
    tracing->reply.on_result = on_result;
    tracing->asked_ns = clock_ns(CLOCK_MONOTONIC);
    profile_reply_call(&tracing->reply, &client_query_profile, &request.base, HISTORY_DEADLINE_MS);
}

void handle_profile_tracing(const struct request_context *context) {
    struct body body = {"", "", "", "", "", "", 0, 0, -1, false};
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    int format;
    sonde_err err = json_fields_read(http_request_body(context->request), fields,
                                     sizeof fields / sizeof fields[0], &arena, &body, &diag);
    if (!err && *body.tag_filter) /* the arena's copy, which may be changed */
        err = tag_filter_translate((char *)(uintptr_t)body.tag_filter, &diag);
    if (!err)
        err = read_shape(body.result_shape, &format, &diag);
    if (err)
        refuse(context->request, err, &diag);
    else
        ask(context, &body, format);
    sonde_arena_finish(&arena);
}
