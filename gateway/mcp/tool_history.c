/* SPDX-License-Identifier: Apache-2.0
 *
 * history: without a service which ones were recorded; with one its values over time and the
 * changes that the watcher found. */
#include "gateway/families/history/history_query.h"
#include "gateway/mcp/completeness.h"
#include "gateway/mcp/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STEPS       12
#define MAX_CHANGES 10

static void put_moment(struct mcp_text *text, int64_t unix_ns) {
    struct sonde_buf time = {0};
    mcp_put_time(&time, unix_ns);
    mcp_text_puts(text, sonde_buf_slice(&time).data);
    sonde_buf_finish(&time);
}

/* ---- Services ---- */

static void put_service(struct mcp_text *text, const Sonde__V1__ServiceInfo *service) {
    char line[100];
    snprintf(line, sizeof line, "%12.1f s on CPU  %u hosts  %u processes  ",
             (double)service->on_cpu_ns / HISTORY_NS_PER_S, service->hosts, service->processes);
    mcp_text_puts(text, line);
    put_moment(text, service->first_unix_ns);
    mcp_text_puts(text, " to ");
    put_moment(text, service->last_unix_ns);
    mcp_text_puts(text, "  ");
    mcp_text_put_name(text, service->name, MCP_NAME_BYTES);
    for (size_t i = 0; i < service->n_events; i++) {
        mcp_text_puts(text, i ? ", " : ": ");
        mcp_text_put_name(text, service->events[i], 20);
    }
    mcp_text_puts(text, "\n");
}

static int by_cpu_time(const void *a, const void *b) {
    const Sonde__V1__ServiceInfo *x = *(Sonde__V1__ServiceInfo *const *)a;
    const Sonde__V1__ServiceInfo *y = *(Sonde__V1__ServiceInfo *const *)b;
    return (x->on_cpu_ns < y->on_cpu_ns) - (x->on_cpu_ns > y->on_cpu_ns);
}

static void on_services(struct mcp_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__ListServicesResponse *list = (const void *)message;
    qsort(list->services, list->n_services, sizeof(Sonde__V1__ServiceInfo *), by_cpu_time);
    sonde_buf_printf(&call->text.head,
                     "%zu services were recorded in the range, the most CPU time first.\n",
                     list->n_services);
    for (size_t i = 0; i < list->n_services; i++)
        put_service(&call->text, list->services[i]);
    if (list->n_services == 0)
        sonde_buf_puts(&call->text.tail, "The tool why_no_data says whether this machine records "
                                         "history.\n");
}

/* ---- Changes ---- */

static void put_function(struct mcp_text *text, const Sonde__V1__ChangedFunction *function) {
    static const char *const kinds[] = {"changed", "more", "less", "moved"};
    char line[120];
    unsigned kind = (unsigned)function->kind < 4 ? (unsigned)function->kind : 0;
    snprintf(line, sizeof line, "  %-7s %.1f %% to %.1f %% of the CPU time (%+.1f to %+.1f)  ",
             kinds[kind], 100 * function->before, 100 * function->after, 100 * function->low,
             100 * function->high);
    mcp_text_puts(text, line);
    mcp_text_put_name(text, function->function, MCP_NAME_BYTES);
    if (function->n_callers) {
        mcp_text_puts(text, "  called by ");
        mcp_text_put_name(text, function->callers[0], MCP_NAME_BYTES);
    }
    mcp_text_puts(text, "\n");
}

static void put_change(struct mcp_text *text, const Sonde__V1__Change *change) {
    mcp_text_puts(text, "change between ");
    put_moment(text, change->from_unix_ns);
    mcp_text_puts(text, " and ");
    put_moment(text, change->until_unix_ns);
    for (size_t i = 0; i < change->n_labels; i++) {
        mcp_text_puts(text, i ? ", " : ", with ");
        mcp_text_put_name(text, change->labels[i]->name, 40);
        mcp_text_puts(text, " ");
        mcp_text_put_name(text, change->labels[i]->before, 60);
        mcp_text_puts(text, " to ");
        mcp_text_put_name(text, change->labels[i]->after, 60);
    }
    mcp_text_puts(text, "\n");
    for (size_t i = 0; i < change->n_functions; i++)
        put_function(text, change->functions[i]);
}

static void on_changes(struct mcp_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__ListChangesResponse *list = (const void *)message;
    sonde_buf_printf(&call->text.head,
                     "Changes that a watcher found in the range, if one runs (sonded --watch): "
                     "%zu%s.\n",
                     list->n_changes, list->is_cut ? " or more" : "");
    for (size_t i = 0; i < list->n_changes; i++)
        put_change(&call->text, list->changes[i]);
}

/* A store without a watcher has no changes, which does not spoil the rest. */
static void end_changes(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    if (err)
        sonde_buf_puts(&call->text.head, "The list of changes is not available.\n");
    mcp_end(call, SONDE_OK, NULL);
}

static void ask_changes(struct mcp_call *call, sonde_err err, const struct sonde_diag *diag) {
    Sonde__V1__ListChangesRequest request = SONDE__V1__LIST_CHANGES_REQUEST__INIT;
    Sonde__V1__Selection selection = history_default_selection();
    if (err || mcp_selection(call, "", &selection, NULL)) {
        mcp_end_history(call, err ? err : SONDE_OUT_OF_MEMORY, diag);
        return;
    }
    request.service = selection.service;
    request.from_unix_ns = selection.from_unix_ns;
    request.until_unix_ns = selection.until_unix_ns;
    request.limit = MAX_CHANGES;
    mcp_ask(call, &client_list_changes, &request.base, HISTORY_DEADLINE_MS, on_changes,
            end_changes);
}

/* ---- Values over time ---- */

/* Steps begin at multiples of their length, but the first one begins with the range, and the last
 * one ends with what was recorded. */
static double length_of(const Sonde__V1__QuerySeriesResponse *answer, int64_t unix_s) {
    int64_t step = answer->step_s ? answer->step_s : 1, end = (unix_s / step + 1) * step;
    int64_t last =
        answer->completeness ? answer->completeness->last_unix_ns / HISTORY_NS_PER_S : end;
    end = last > unix_s && last < end ? last : end;
    return (double)(end - unix_s);
}

static void put_point(struct mcp_text *text, const Sonde__V1__QuerySeriesResponse *answer,
                      int64_t unix_s, int64_t value) {
    char line[64];
    double seconds = (double)value / HISTORY_NS_PER_S;
    put_moment(text, unix_s * HISTORY_NS_PER_S);
    if (strcmp(answer->unit, "nanoseconds") == 0)
        snprintf(line, sizeof line, "  %10.3f s  %8.3f threads on average\n", seconds,
                 seconds / length_of(answer, unix_s));
    else
        snprintf(line, sizeof line, "  %14lld\n", (long long)value);
    mcp_text_puts(text, line);
}

static void on_series(struct mcp_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__QuerySeriesResponse *answer = (const void *)message;
    bool is_time = strcmp(answer->unit, "nanoseconds") == 0;
    mcp_put_completeness(&call->text, "Completeness", answer->completeness);
    sonde_buf_printf(&call->text.head,
                     "Values are sums of %u s each, in %s; steps without windows are left out.\n",
                     answer->step_s, is_time ? "seconds" : "bytes or events");
    for (size_t i = 0; i < answer->n_series; i++) {
        const Sonde__V1__Series *series = answer->series[i];
        for (size_t j = 0; j < series->n_value && j < series->n_time_unix_s; j++)
            put_point(&call->text, answer, (int64_t)series->time_unix_s[j], series->value[j]);
    }
    if (answer->n_series == 0)
        sonde_buf_puts(&call->text.head, "No windows match: history without arguments lists the "
                                         "services.\n");
}

static void ask_series(struct mcp_call *call, Sonde__V1__Selection *selection) {
    Sonde__V1__QuerySeriesRequest request = SONDE__V1__QUERY_SERIES_REQUEST__INIT;
    int64_t length_s = (selection->until_unix_ns - selection->from_unix_ns) / HISTORY_NS_PER_S;
    int64_t step_s = length_s / STEPS;
    request.selection = selection;
    request.step_s = step_s < 10 ? 10 : step_s > 86400 ? 86400 : (uint32_t)step_s;
    mcp_ask(call, &client_query_series, &request.base, HISTORY_DEADLINE_MS, on_series, ask_changes);
}

static void ask_services(struct mcp_call *call, const Sonde__V1__Selection *selection) {
    Sonde__V1__ListServicesRequest request = SONDE__V1__LIST_SERVICES_REQUEST__INIT;
    request.from_unix_ns = selection->from_unix_ns;
    request.until_unix_ns = selection->until_unix_ns;
    request.selector = selection->selector;
    mcp_ask(call, &client_list_services, &request.base, HISTORY_DEADLINE_MS, on_services,
            mcp_end_history);
}

static sonde_err start(struct mcp_call *call, struct sonde_diag *diag) {
    Sonde__V1__Selection selection = history_default_selection();
    sonde_err err = mcp_selection(call, "", &selection, diag);
    if (err)
        return err;
    if (mcp_is_said(call, "service"))
        ask_series(call, &selection);
    else
        ask_services(call, &selection);
    return SONDE_OK;
}

static const struct mcp_argument arguments[] = {MCP_SELECTION};

const struct mcp_tool mcp_history = {
    .name = "history",
    .title = "What was recorded",
    .description =
        "Without service: the services that were recorded in the range (default: the last hour). "
        "With service: its values over time, how complete they are, and changes of functions that "
        "were found. top, callers_and_callees and diff take the same range for the functions.",
    .arguments = arguments,
    .argument_count = sizeof arguments / sizeof arguments[0],
    .is_read_only = true,
    .start = start,
};
