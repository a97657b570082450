/* SPDX-License-Identifier: Apache-2.0
 *
 * /v1/history: what was recorded, in any format and as JSON. A profile's headers say how complete
 * it is. HEAD checks the parameters and that there is a history. */
#include "api/text/utf8.h"
#include "gateway/families/history/history_query.h"
#include "gateway/reply/profile_reply.h"
#include "gateway/reply/reply.h"

#include <stdio.h>
#include <string.h>

#define UNARY_DEADLINE_MS 60000
#define MAX_GROUPS        8
#define MAX_LIMIT         10000

static const struct profile_setup setup = {0, SONDE__V1__FORMAT__SVG_FLAMEGRAPH, PROFILE_NEGOTIATES,
                                           FORMATS_CPU, "attachment; filename=\"history\""};

static const struct profile_setup of_two = {0, SONDE__V1__FORMAT__SVG_FLAMEGRAPH,
                                            PROFILE_NEGOTIATES, FORMATS_DIFFERENCE,
                                            "attachment; filename=\"history\""};

/* ---- Profiles ---- */

static void refuse(struct profile_reply *reply, sonde_err err, const struct sonde_diag *diag) {
    history_on_end(&reply->relay, err, diag);
}

/* "web-2 1763869400-1763869435, web-3 ...": as many as fit. */
static void list_silences(const Sonde__V1__Completeness *known, char *text, size_t size) {
    size_t len = 0;
    for (size_t i = 0; i < known->n_silences; i++) {
        const Sonde__V1__Silence *silence = known->silences[i];
        char one[160];
        int bytes = snprintf(one, sizeof one, "%s%.100s %lld-%lld", i ? ", " : "", silence->host,
                             (long long)(silence->from_unix_ns / HISTORY_NS_PER_S),
                             (long long)(silence->until_unix_ns / HISTORY_NS_PER_S));
        if (len + (size_t)bytes >= size)
            return;
        profile_reply_copy_value(text + len, size - len, one);
        len += (size_t)bytes;
    }
}

static void on_result(struct profile_reply *reply, const Sonde__V1__ResultStart *result) {
    const Sonde__V1__Completeness *known = result->completeness;
    if (!known)
        return;
    snprintf(
        reply->completeness, sizeof reply->completeness,
        "windows=%llu/%llu samples=%llu dropped=%llu trimmed=%llu shards=%u/%u first=%lld "
        "last=%lld open=%u began=%lld silences=%llu drawn=%llu/%.0f deviation=%.3f "
        "sampled=%.3f/%.3f",
        (unsigned long long)known->windows_received, (unsigned long long)known->windows_expected,
        (unsigned long long)known->samples, (unsigned long long)known->dropped,
        (unsigned long long)known->trimmed_nodes, known->shards_answered, known->shards_asked,
        (long long)(known->first_unix_ns / HISTORY_NS_PER_S),
        (long long)(known->last_unix_ns / HISTORY_NS_PER_S), known->open_s,
        (long long)(known->recording_began_unix_ns / HISTORY_NS_PER_S),
        (unsigned long long)known->n_silences + known->silences_omitted,
        (unsigned long long)known->drawn_processes, known->drawn_for, known->drawn_deviation,
        (double)known->sampled_ns / HISTORY_NS_PER_S, (double)known->counted_ns / HISTORY_NS_PER_S);
    list_silences(known, reply->silences, sizeof reply->silences);
}

static void start(const struct request_context *context, const struct profile_format *format,
                  const struct client_method *method, const ProtobufCMessage *request) {
    struct profile_reply *reply = profile_reply_create(context, sizeof *reply, format);
    reply->refuse = refuse;
    reply->on_result = on_result;
    if (context->head)
        profile_reply_check_history(reply);
    else
        profile_reply_call(reply, method, request, HISTORY_DEADLINE_MS);
}

static void refuse_request(const struct request_context *context, sonde_err err,
                           const struct sonde_diag *diag, struct sonde_arena *arena) {
    reply_error(context->request, context->family, err, diag);
    sonde_arena_finish(arena);
}

/* False if the request was refused. */
static bool read_selection(const struct request_context *context, struct sonde_arena *arena,
                           Sonde__V1__Selection *selection) {
    struct sonde_diag diag = {0};
    sonde_err err = history_read_selection(&context->query, "", arena, selection, &diag);
    if (err)
        refuse_request(context, err, &diag, arena);
    return !err;
}

void handle_history_profile(const struct request_context *context) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Selection selection = history_default_selection();
    struct sonde_arena arena = {0};
    struct profile_format format;
    if (!read_selection(context, &arena, &selection))
        return;
    if (profile_format_read(context, &setup, setup.format, &format)) {
        Sonde__V1__Rendering rendering = profile_format_rendering(&format);
        request.selection = &selection;
        request.rendering = &rendering;
        start(context, &format, &client_query_profile, &request.base);
    }
    sonde_arena_finish(&arena);
}

/* The base is the selection with other values of the parameters that begin with "base_". */
static sonde_err read_both(const struct query *query, struct sonde_arena *arena,
                           Sonde__V1__Selection *base, Sonde__V1__Selection *selection,
                           struct sonde_diag *diag) {
    static const char *const differing[] = {"base_service", "base_event", "base_selector",
                                            "base_from", "base_until"};
    size_t given = 0;
    for (size_t i = 0; i < sizeof differing / sizeof differing[0]; i++)
        given += query_occurrences(query, differing[i]);
    if (!given)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "name what to compare with: base_from and base_until, base_service, "
                          "base_event or base_selector");
    sonde_err err = history_read_selection(query, "", arena, selection, diag);
    *base = *selection;
    return err ? err : history_read_selection(query, "base_", arena, base, diag);
}

void handle_history_diff(const struct request_context *context) {
    Sonde__V1__QueryDiffRequest request = SONDE__V1__QUERY_DIFF_REQUEST__INIT;
    Sonde__V1__Selection selection = history_default_selection(), base;
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    struct profile_format format;
    bool growth = false;
    sonde_err err = read_both(&context->query, &arena, &base, &selection, &diag);
    if (!err)
        err = query_flag(&context->query, "growth", &growth, &diag);
    if (err) {
        refuse_request(context, err, &diag, &arena);
        return;
    }
    if (profile_format_read(context, &of_two, of_two.format, &format)) {
        Sonde__V1__Rendering rendering = profile_format_rendering(&format);
        request.base_selection = &base;
        request.selection = &selection;
        request.rendering = &rendering;
        request.growth_only = growth;
        start(context, &format, &client_query_diff, &request.base);
    }
    sonde_arena_finish(&arena);
}

/* ---- JSON ---- */

static const struct relay_events json_events = {relay_answer_json, history_on_end, NULL};

static void call(const struct request_context *context, const struct client_method *method,
                 const ProtobufCMessage *request) {
    relay_call(relay_create(context, sizeof(struct relay), &json_events), method, request,
               UNARY_DEADLINE_MS);
}

/* "host,pod" in place. */
static size_t split_groups(char *text, char *groups[MAX_GROUPS + 1]) {
    size_t count = 0;
    for (char *rest = text, *name; count <= MAX_GROUPS && (name = strsep(&rest, ","));)
        if (*name)
            groups[count++] = name;
    return count;
}

static sonde_err read_series(const struct query *query, struct sonde_arena *arena,
                             Sonde__V1__QuerySeriesRequest *request, char *groups[MAX_GROUPS + 1],
                             struct sonde_diag *diag) {
    uint64_t step = 0, limit = 0;
    char *names = NULL;
    sonde_err err = history_read_selection(query, "", arena, request->selection, diag);
    if (!err)
        err = query_whole(query, "step", 1, 86400, &step, diag);
    if (!err)
        err = query_whole(query, "limit", 1, MAX_LIMIT, &limit, diag);
    if (!err)
        err = history_read_text(query, "group_by", arena, &names, diag);
    if (!err)
        err = history_read_text(query, "function", arena, &request->function, diag);
    request->step_s = step && step < 10 ? 10 : (uint32_t)step;
    request->limit = (uint32_t)limit;
    request->n_group_by = names ? split_groups(names, groups) : 0;
    request->group_by = groups;
    if (!err && request->n_group_by > MAX_GROUPS)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT, "group_by: at most %d labels", MAX_GROUPS);
    return err;
}

void handle_history_series(const struct request_context *context) {
    Sonde__V1__QuerySeriesRequest request = SONDE__V1__QUERY_SERIES_REQUEST__INIT;
    Sonde__V1__Selection selection = history_default_selection();
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    char *groups[MAX_GROUPS + 1];
    request.selection = &selection;
    sonde_err err = read_series(&context->query, &arena, &request, groups, &diag);
    if (err) {
        refuse_request(context, err, &diag, &arena);
        return;
    }
    call(context, &client_query_series, &request.base);
    sonde_arena_finish(&arena);
}

void handle_history_top(const struct request_context *context) {
    Sonde__V1__QueryTopRequest request = SONDE__V1__QUERY_TOP_REQUEST__INIT;
    Sonde__V1__Selection selection = history_default_selection();
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    uint64_t limit = 0;
    bool by_total = false;
    sonde_err err = history_read_selection(&context->query, "", &arena, &selection, &diag);
    if (!err)
        err = query_whole(&context->query, "limit", 1, MAX_LIMIT, &limit, &diag);
    if (!err)
        err = query_flag(&context->query, "by_total", &by_total, &diag);
    if (err) {
        refuse_request(context, err, &diag, &arena);
        return;
    }
    request.selection = &selection;
    request.limit = (uint32_t)limit;
    request.by_total = by_total;
    call(context, &client_query_top, &request.base);
    sonde_arena_finish(&arena);
}

void handle_history_function(const struct request_context *context) {
    Sonde__V1__QueryFunctionRequest request = SONDE__V1__QUERY_FUNCTION_REQUEST__INIT;
    Sonde__V1__Selection selection = history_default_selection();
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    char *function = NULL;
    uint64_t limit = 0;
    sonde_err err = history_read_selection(&context->query, "", &arena, &selection, &diag);
    if (!err)
        err = query_whole(&context->query, "limit", 1, MAX_LIMIT, &limit, &diag);
    if (!err)
        err = history_read_text(&context->query, "function", &arena, &function, &diag);
    if (!err && !function)
        err = sonde_fail(&diag, SONDE_INVALID_ARGUMENT,
                         "function is missing: a name, in which * stands for any characters");
    if (err) {
        refuse_request(context, err, &diag, &arena);
        return;
    }
    request.selection = &selection;
    request.function = function;
    request.limit = (uint32_t)limit;
    call(context, &client_query_function, &request.base);
    sonde_arena_finish(&arena);
}

void handle_history_services(const struct request_context *context) {
    Sonde__V1__ListServicesRequest request = SONDE__V1__LIST_SERVICES_REQUEST__INIT;
    Sonde__V1__Selection selection = history_default_selection();
    struct sonde_arena arena = {0};
    if (!read_selection(context, &arena, &selection))
        return;
    request.from_unix_ns = selection.from_unix_ns;
    request.until_unix_ns = selection.until_unix_ns;
    request.selector = selection.selector;
    call(context, &client_list_services, &request.base);
    sonde_arena_finish(&arena);
}

void handle_history_labels(const struct request_context *context) {
    Sonde__V1__ListLabelsRequest request = SONDE__V1__LIST_LABELS_REQUEST__INIT;
    Sonde__V1__Selection selection = history_default_selection();
    struct sonde_arena arena = {0};
    if (!read_selection(context, &arena, &selection))
        return;
    request.from_unix_ns = selection.from_unix_ns;
    request.until_unix_ns = selection.until_unix_ns;
    request.selector = selection.selector;
    call(context, &client_list_labels, &request.base);
    sonde_arena_finish(&arena);
}

/* The path's last segment, decoded. */
static sonde_err read_label(const struct request_context *context, struct sonde_arena *arena,
                            char **name, struct sonde_diag *diag) {
    size_t skip = strcspn(context->route->path, "{");
    struct sonde_slice tail = {context->path.rest.data + skip, context->path.rest.len - skip};
    char *text = sonde_arena_alloc(arena, tail.len + 1);
    if (!text)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    size_t len = query_decode_path(tail, text);
    *name = text;
    if (memchr(text, 0, len) || !sonde_utf8_is_valid(text, len))
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "name: must be UTF-8 without NUL");
    return SONDE_OK;
}

void handle_history_label(const struct request_context *context) {
    Sonde__V1__ListLabelValuesRequest request = SONDE__V1__LIST_LABEL_VALUES_REQUEST__INIT;
    Sonde__V1__Selection selection = history_default_selection();
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    sonde_err err = history_read_selection(&context->query, "", &arena, &selection, &diag);
    if (!err)
        err = read_label(context, &arena, &request.name, &diag);
    if (err) {
        refuse_request(context, err, &diag, &arena);
        return;
    }
    request.from_unix_ns = selection.from_unix_ns;
    request.until_unix_ns = selection.until_unix_ns;
    request.selector = selection.selector;
    call(context, &client_list_label_values, &request.base);
    sonde_arena_finish(&arena);
}

void handle_history_changes(const struct request_context *context) {
    Sonde__V1__ListChangesRequest request = SONDE__V1__LIST_CHANGES_REQUEST__INIT;
    Sonde__V1__Selection selection = history_default_selection();
    struct sonde_arena arena = {0};
    struct sonde_diag diag = {0};
    uint64_t limit = 0;
    sonde_err err = history_read_selection(&context->query, "", &arena, &selection, &diag);
    if (!err)
        err = query_whole(&context->query, "limit", 1, MAX_LIMIT, &limit, &diag);
    if (err) {
        refuse_request(context, err, &diag, &arena);
        return;
    }
    request.service = selection.service;
    request.from_unix_ns = selection.from_unix_ns;
    request.until_unix_ns = selection.until_unix_ns;
    request.limit = (uint32_t)limit;
    call(context, &client_list_changes, &request.base);
    sonde_arena_finish(&arena);
}

void handle_history_info(const struct request_context *context) {
    Sonde__V1__GetHistoryInfoRequest request = SONDE__V1__GET_HISTORY_INFO_REQUEST__INIT;
    call(context, &client_get_history_info, &request.base);
}
