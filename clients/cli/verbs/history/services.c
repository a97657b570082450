/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/history/services.h"

#include "clients/cli/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S     1000000000ll
#define COLUMNS      24 /* of bars */
#define MAX_ROWS     30
#define SERIES_LIMIT 10000 /* the most that a service sends; its largest sums come first */

static sonde_err ask(struct service *service, const struct history_range *range,
                     const char *selector, ProtobufCMessage **answer, struct sonde_diag *diag) {
    Sonde__V1__ListServicesRequest request = SONDE__V1__LIST_SERVICES_REQUEST__INIT;
    request.from_unix_ns = range->from_unix_ns;
    request.until_unix_ns = range->until_unix_ns;
    if (selector)
        request.selector = (char *)selector;
    sonde_err err = service_call(service, &client_list_services, &request.base, answer, diag);
    return err ? history_explain(err, diag) : SONDE_OK;
}

/* ---- The list ---- */

static void print_service(const Sonde__V1__ServiceInfo *service) {
    char first[CLI_VALUE_BYTES], last[CLI_VALUE_BYTES];
    printf("%-19s  %-19s  %12.1f %6u %6u  ", cli_time_text(service->first_unix_ns, first),
           cli_time_text(service->last_unix_ns, last), (double)service->on_cpu_ns / NS_PER_S,
           service->hosts, service->processes);
    cli_put_name(stdout, service->name);
    for (size_t i = 0; i < service->n_events; i++) {
        fputs(i ? ", " : "  ", stdout);
        cli_put_name(stdout, service->events[i]);
    }
    putchar('\n');
}

static void print_list(const Sonde__V1__ListServicesResponse *list) {
    if (list->n_services == 0) {
        puts("nothing was recorded in this time");
        return;
    }
    printf("%-19s  %-19s  %12s %6s %6s  %s\n", "FIRST", "LAST", "CPU SECONDS", "HOSTS", "PROCS",
           "SERVICE  EVENTS");
    for (size_t i = 0; i < list->n_services; i++)
        print_service(list->services[i]);
}

sonde_err history_list_services(struct service *service, const struct history_range *range,
                                const char *selector, bool as_json, struct sonde_diag *diag) {
    ProtobufCMessage *answer;
    sonde_err err = ask(service, range, selector, &answer, diag);
    if (err)
        return err;
    if (as_json)
        json_print(answer);
    else
        print_list((const void *)answer);
    protobuf_c_message_free_unpacked(answer, NULL);
    return SONDE_OK;
}

/* ---- The overview ---- */

/* A column is one step of the series, or several where the range has more. */
struct columns {
    int64_t from_unix_s, length_s;
    size_t count;
};

struct bars {
    int64_t values[COLUMNS];
    bool is_known[COLUMNS];
    int64_t highest;
};

static const Sonde__V1__Series *find_series(const Sonde__V1__QuerySeriesResponse *series,
                                            const char *service) {
    for (size_t i = 0; i < series->n_series; i++)
        if (series->series[i]->n_labels == 1 &&
            strcmp(series->series[i]->labels[0]->value, service) == 0)
            return series->series[i];
    return NULL;
}

/* Steps outside the range, which a service should not send, are left out. */
static void fill_bars(struct bars *bars, const Sonde__V1__Series *series,
                      const struct columns *columns) {
    size_t count = series ? series->n_time_unix_s : 0;
    *bars = (struct bars){0};
    for (size_t i = 0; i < count && i < series->n_value; i++) {
        int64_t after_s = series->time_unix_s[i] - columns->from_unix_s;
        if (after_s < 0 || after_s / columns->length_s >= (int64_t)columns->count)
            continue;
        int64_t column = after_s / columns->length_s;
        bars->values[column] += series->value[i];
        bars->is_known[column] = true;
        if (bars->values[column] > bars->highest)
            bars->highest = bars->values[column];
    }
}

static void print_bars(const struct bars *bars, size_t count) {
    static const char *const heights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const int64_t top = (int64_t)COUNT_OF(heights) - 1;
    for (size_t i = 0; i < count; i++) {
        double part = bars->highest > 0 ? (double)bars->values[i] / (double)bars->highest : 0;
        int64_t height = (int64_t)(part * (double)top + 0.5);
        fputs(bars->is_known[i] ? heights[height < 0 ? 0 : height] : "·", stdout);
    }
}

static int by_cpu(const void *a, const void *b) {
    const Sonde__V1__ServiceInfo *const *left = a, *const *right = b;
    if ((*left)->on_cpu_ns != (*right)->on_cpu_ns)
        return (*left)->on_cpu_ns < (*right)->on_cpu_ns ? 1 : -1;
    return strcmp((*left)->name, (*right)->name);
}

static void print_heading(const struct columns *columns, int64_t until_s) {
    char from[CAPTURE_TIME_BYTES], until[CAPTURE_TIME_BYTES];
    printf("%s to %s, %" PRId64
           " s in each column, each row on its own scale; · = nothing recorded\n",
           capture_time_text(columns->from_unix_s * NS_PER_S, from),
           capture_time_text(until_s * NS_PER_S, until), columns->length_s);
    printf("%11s  %6s  %-*s  %5s  %5s  %s\n", "CPU SECONDS", "SHARE", (int)columns->count, "WHEN",
           "HOSTS", "PROCS", "SERVICE");
}

static struct columns choose_columns(const struct history_range *range, uint32_t step_s) {
    int64_t step = step_s ? step_s : 1; /* steps begin at multiples of their length */
    int64_t from_s = range->from_unix_ns / NS_PER_S / step * step;
    int64_t until_s = range->until_unix_ns / NS_PER_S;
    int64_t steps = until_s > from_s ? (until_s - from_s + step - 1) / step : 1;
    int64_t steps_each = (steps + COLUMNS - 1) / COLUMNS;
    return (struct columns){from_s, step * steps_each,
                            (size_t)((steps + steps_each - 1) / steps_each)};
}

static void print_overview(const Sonde__V1__ListServicesResponse *list,
                           const Sonde__V1__QuerySeriesResponse *series,
                           const struct history_range *range) {
    const struct columns columns = choose_columns(range, series->step_s);
    double sum = 0;
    for (size_t i = 0; i < list->n_services; i++)
        sum += (double)list->services[i]->on_cpu_ns;
    qsort(list->services, list->n_services, sizeof(Sonde__V1__ServiceInfo *), by_cpu);
    print_heading(&columns, range->until_unix_ns / NS_PER_S);
    for (size_t i = 0; i < list->n_services && i < MAX_ROWS; i++) {
        const Sonde__V1__ServiceInfo *service = list->services[i];
        double ns = (double)service->on_cpu_ns;
        struct bars bars;
        fill_bars(&bars, find_series(series, service->name), &columns);
        printf("%11.1f  %5.1f%%  ", ns / NS_PER_S, sum > 0 ? 100 * ns / sum : 0);
        print_bars(&bars, columns.count);
        printf("  %5u  %5u  ", service->hosts, service->processes);
        cli_put_name(stdout, service->name);
        putchar('\n');
    }
    if (list->n_services > MAX_ROWS)
        printf("%zu more services used less; sonde history --list shows all\n",
               list->n_services - MAX_ROWS);
}

static uint32_t step_of(const struct history_range *range) {
    int64_t seconds = (range->until_unix_ns - range->from_unix_ns) / NS_PER_S;
    int64_t step = (seconds + COLUMNS - 2) / (COLUMNS - 1); /* the first one may be a part */
    step = (step + 9) / 10 * 10;
    return step > 86400 ? 86400 : (uint32_t)step;
}

static sonde_err show(struct service *service, const struct history_range *range,
                      const Sonde__V1__ListServicesResponse *list, struct sonde_diag *diag) {
    Sonde__V1__QuerySeriesRequest request = SONDE__V1__QUERY_SERIES_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    struct capture_completeness completeness;
    static char by_service[] = "service";
    char *by[] = {by_service};
    ProtobufCMessage *answer;
    history_select(&selection, "", NULL, NULL, range);
    request.selection = &selection;
    request.step_s = step_of(range);
    request.group_by = by;
    request.n_group_by = 1;
    request.limit = SERIES_LIMIT;
    sonde_err err = service_call(service, &client_query_series, &request.base, &answer, diag);
    if (err)
        return history_explain(err, diag);
    const Sonde__V1__QuerySeriesResponse *series = (const void *)answer;
    print_overview(list, series, range);
    fflush(stdout);
    capture_read_completeness(series->completeness, &completeness);
    capture_print_completeness("", &completeness);
    protobuf_c_message_free_unpacked(answer, NULL);
    return SONDE_OK;
}

sonde_err history_show_services(struct service *service, const struct history_range *range,
                                struct sonde_diag *diag) {
    ProtobufCMessage *answer;
    sonde_err err = ask(service, range, NULL, &answer, diag);
    if (err)
        return err;
    const Sonde__V1__ListServicesResponse *list = (const void *)answer;
    if (list->n_services == 0)
        err = history_refuse_empty(service, range, NULL, diag);
    else
        err = show(service, range, list, diag);
    protobuf_c_message_free_unpacked(answer, NULL);
    return err;
}
