/* SPDX-License-Identifier: Apache-2.0
 *
 * QuerySeries: values over time. */
#include "api/profile/event.h"
#include "service/rpc/base/text.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/history/names.h"
#include "service/rpc/history/selection.h"
#include "service/rpc/request/params.h"
#include "service/store/function_stacks.h"

#include <string.h>

#define MIN_STEP_S     10
#define MAX_STEP_S     86400
#define MAX_STEPS      11000
#define MAX_GROUPS     8
#define MAX_SERIES     10000
#define DEFAULT_SERIES 100
#define MAX_FUNCTION   1024
#define MAX_POINTS     1000000 /* of all series: an answer of about 20 MB */

/* Without a begin, the range begins with the first window. */
static sonde_err find_begin(struct history_query *query, struct store_query *range,
                            struct sonde_diag *diag) {
    struct store *store = query->history->store;
    struct store_info info = {.engine = ""};
    if (range->from_unix_s > 0)
        return SONDE_OK;
    sonde_err err = store->ops->info(store, &query->stop, &info, diag);
    range->from_unix_s = info.first_unix_s;
    return err;
}

static sonde_err choose_step(uint32_t sent, struct store_series_query *series,
                             struct sonde_diag *diag) {
    int64_t length_s = series->query.until_unix_s - series->query.from_unix_s;
    int64_t fallback = length_s / 100;
    fallback = fallback < MIN_STEP_S ? MIN_STEP_S : fallback > MAX_STEP_S ? MAX_STEP_S : fallback;
    sonde_err err = rpc_number("step_s", sent, (uint64_t)fallback, MIN_STEP_S, MAX_STEP_S,
                               &series->step_s, diag);
    if (err)
        return err;
    series->step_s = (series->step_s + 9) / 10 * 10;
    if (length_s / series->step_s > MAX_STEPS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "the range has %lld steps of %u s; the limit is %d: use larger steps",
                          (long long)(length_s / series->step_s), series->step_s, MAX_STEPS);
    return SONDE_OK;
}

static sonde_err choose_groups(const Sonde__V1__QuerySeriesRequest *request,
                               struct store_series_query *series, struct sonde_diag *diag) {
    if (request->n_group_by > MAX_GROUPS)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "group_by: %zu labels; at most %d",
                          request->n_group_by, MAX_GROUPS);
    for (size_t i = 0; i < request->n_group_by; i++) {
        size_t len = strlen(request->group_by[i]);
        if (len == 0 || len > STORE_MAX_TEXT)
            return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                              "group_by: the name of a label has 1 to %d bytes, not %zu",
                              STORE_MAX_TEXT, len);
    }
    series->group_by = (const char *const *)request->group_by;
    series->group_count = request->n_group_by;
    return rpc_number("limit", request->limit, DEFAULT_SERIES, 1, MAX_SERIES, &series->limit, diag);
}

/* Frames that this machine can name are named first. */
static sonde_err choose_stacks(struct history_query *query, struct store_series_query *series,
                               struct sonde_diag *diag) {
    const Sonde__V1__QuerySeriesRequest *request = (const void *)query->request;
    if (!request->function[0])
        return SONDE_OK;
    if (strlen(request->function) > MAX_FUNCTION)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                          "function: %zu bytes are too long; at most %d", strlen(request->function),
                          MAX_FUNCTION);
    history_names_refresh(query->history->names, &query->stop);
    return store_function_stacks(query->history->store, &series->query, request->function,
                                 &query->arena, &series->stacks, &series->stack_count, diag);
}

static bool fill_labels(struct sonde_arena *arena, const struct store_series_query *asked,
                        const struct store_series *from, Sonde__V1__Series *to) {
    size_t count = asked->group_count;
    Sonde__V1__Label *labels = sonde_arena_alloc(arena, (count + 1) * sizeof *labels);
    to->labels = sonde_arena_alloc(arena, (count + 1) * sizeof *to->labels);
    if (!labels || !to->labels)
        return false;
    for (size_t i = 0; i < count; i++) {
        sonde__v1__label__init(&labels[i]);
        labels[i].name = (char *)rpc_text(arena, asked->group_by[i]);
        labels[i].value = (char *)rpc_text(arena, from->values[i]);
        to->labels[to->n_labels++] = &labels[i];
    }
    return true;
}

/* The first step may begin before the range, whose windows it has. */
static bool fill_points(struct sonde_arena *arena, const struct store_series_query *asked,
                        const struct store_series *from, Sonde__V1__Series *to) {
    int64_t begin = asked->query.from_unix_s;
    size_t bytes = (from->point_count + 1) * sizeof(int64_t);
    to->time_unix_s = sonde_arena_alloc(arena, bytes);
    to->value = sonde_arena_alloc(arena, bytes);
    if (!to->time_unix_s || !to->value)
        return false;
    for (size_t i = 0; i < from->point_count; i++) {
        int64_t at = from->points[i].time_unix_s;
        to->time_unix_s[i] = at > begin ? at : begin;
        to->value[i] = from->points[i].value;
    }
    to->n_time_unix_s = to->n_value = from->point_count;
    return true;
}

static sonde_err check_points(const struct store_series_result *result, struct sonde_diag *diag) {
    size_t points = 0;
    for (size_t i = 0; i < result->series_count; i++)
        points += result->series[i].point_count;
    if (points <= MAX_POINTS)
        return SONDE_OK;
    return sonde_fail(diag, SONDE_TOO_LARGE,
                      "the answer has %zu points; at most %d: ask for larger steps or fewer series",
                      points, MAX_POINTS);
}

static sonde_err add_answer(struct history_query *query, const struct store_series_query *asked,
                            const struct history_selection *selection,
                            const struct store_series_result *result, struct sonde_diag *diag) {
    struct sonde_arena *arena = &query->arena;
    Sonde__V1__QuerySeriesResponse response = SONDE__V1__QUERY_SERIES_RESPONSE__INIT;
    Sonde__V1__Completeness completeness;
    Sonde__V1__Series *all = sonde_arena_alloc(arena, (result->series_count + 1) * sizeof *all);
    response.series = sonde_arena_alloc(arena, (result->series_count + 1) * sizeof(void *));
    sonde_err err = check_points(result, diag);
    if (!err)
        err = history_completeness(query, selection, &result->completeness, &completeness, diag);
    if (err)
        return err;
    if (!all || !response.series)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < result->series_count; i++) {
        sonde__v1__series__init(&all[i]);
        if (!fill_labels(arena, asked, &result->series[i], &all[i]) ||
            !fill_points(arena, asked, &result->series[i], &all[i]))
            return SONDE_OUT_OF_MEMORY;
        response.series[response.n_series++] = &all[i];
    }
    response.unit = (char *)sonde_event_unit(asked->query.event);
    response.step_s = asked->step_s;
    response.omitted = result->omitted;
    response.completeness = &completeness;
    return rpc_document_add(&query->document, &response.base);
}

static sonde_err run(struct history_query *query, struct sonde_diag *diag) {
    const Sonde__V1__QuerySeriesRequest *request = (const void *)query->request;
    struct store *store = query->history->store;
    struct history_selection selection = {.selector = NULL};
    struct store_series_query asked = {.step_s = 0};
    struct store_series_result result = {.series = NULL};
    sonde_err err =
        history_selection_read(query, request->selection, "selection", &selection, diag);
    if (!err && selection.host_totals)
        err = sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                         "host_totals: a series has no host view; a profile has one");
    if (!err)
        err = find_begin(query, &selection.query, diag);
    asked.query = selection.query;
    if (!err)
        err = choose_step(request->step_s, &asked, diag);
    if (!err)
        err = choose_groups(request, &asked, diag);
    if (!err)
        err = choose_stacks(query, &asked, diag);
    if (!err)
        err = store->ops->series(store, &asked, &query->arena, &result, diag);
    if (!err)
        err = add_answer(query, &asked, &selection, &result, diag);
    history_selection_finish(&selection);
    return err;
}

void rpc_query_series(struct rpc_call *call, const ProtobufCMessage *request) {
    history_query_start(call, request, run);
}
