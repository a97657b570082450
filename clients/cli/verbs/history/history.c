/* SPDX-License-Identifier: Apache-2.0
 *
 * `sonde history`: draws any range of what the service recorded, or lists what it has. */
#include "clients/cli/history.h"

#include "clients/cli/formats.h"
#include "clients/cli/json.h"
#include "clients/cli/verbs/history/changes.h"
#include "clients/cli/verbs/history/services.h"
#include "clients/cli/verbs/verbs.h"

#include <inttypes.h>
#include <string.h>

#define NS_PER_S 1000000000

struct settings {
    struct service_settings service;
    const char *from, *until, *event, *selector, *output, *format, *title, *function;
    bool list, changes, processes, json;
    struct cli_threads threads;
    bool hide_idle;
};

/* ---- Services that use a function ---- */

static void print_uses(const Sonde__V1__QueryFunctionResponse *response) {
    bool is_time = strcmp(response->unit, "nanoseconds") == 0;
    double scale = is_time ? NS_PER_S : 1048576;
    if (response->n_services == 0) {
        puts("no service has this function on a stack in this time (* = any characters)");
        return;
    }
    printf("%14s %14s %8s  %s\n", is_time ? "SELF SECONDS" : "SELF MIB",
           is_time ? "TOTAL SECONDS" : "TOTAL MIB", "SHARE", "SERVICE");
    for (size_t i = 0; i < response->n_services; i++) {
        const Sonde__V1__FunctionUse *use = response->services[i];
        double share =
            use->service_total ? 100.0 * (double)use->total / (double)use->service_total : 0;
        printf("%14.2f %14.2f %7.2f%%  ", (double)use->self / scale, (double)use->total / scale,
               share);
        cli_put_name(stdout, use->service);
        putchar('\n');
    }
    if (response->omitted)
        printf("%" PRIu64 " more services use it less\n", response->omitted);
}

static sonde_err uses(struct service *service, const struct settings *settings, const char *name,
                      const struct history_range *range, struct sonde_diag *diag) {
    Sonde__V1__QueryFunctionRequest request = SONDE__V1__QUERY_FUNCTION_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    ProtobufCMessage *answer;
    history_select(&selection, name, settings->event, settings->selector, range);
    request.selection = &selection;
    request.function = (char *)settings->function;
    sonde_err err = service_call(service, &client_query_function, &request.base, &answer, diag);
    if (err)
        return history_explain(err, diag);
    const Sonde__V1__QueryFunctionResponse *found = (const void *)answer;
    struct capture_completeness completeness;
    if (settings->json)
        json_print(answer);
    else
        print_uses(found);
    capture_read_completeness(found->completeness, &completeness);
    if (!settings->json)
        capture_print_completeness("", &completeness);
    protobuf_c_message_free_unpacked(answer, NULL);
    return SONDE_OK;
}

/* ---- A profile ---- */

static sonde_err query(struct service *service, const struct settings *settings, const char *name,
                       const struct history_range *range, enum sonde_format format,
                       const char *path, struct sonde_diag *diag) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Selection selection = SONDE__V1__SELECTION__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    history_select(&selection, name, settings->event, settings->selector, range);
    selection.host_totals = settings->processes;
    rendering.format = (Sonde__V1__Format)format;
    rendering.split_threads = cli_splits_threads(&settings->threads);
    rendering.hide_idle = settings->hide_idle;
    if (settings->title)
        rendering.title = (char *)settings->title;
    request.selection = &selection;
    request.rendering = &rendering;
    return history_fetch(service, &client_query_profile, &request.base, range, path, diag);
}

/* Nothing says which profile is wanted. */
static bool is_overview(const struct settings *settings, const char *name) {
    return !*name && !settings->title && !settings->selector && !settings->event &&
           !settings->output && !settings->format && !settings->function && !settings->processes;
}

static sonde_err answer(const struct settings *settings, const char *name,
                        const struct history_range *range, const struct sonde_format_info *format,
                        const char *path, struct sonde_diag *diag) {
    struct service service;
    sonde_err err = service_open(&service, &settings->service, diag);
    if (!err && settings->changes)
        err = history_list_changes(&service, name, range, settings->json, diag);
    else if (!err && (settings->list || (settings->json && is_overview(settings, name))))
        err = history_list_services(&service, range, settings->selector, settings->json, diag);
    else if (!err && is_overview(settings, name))
        err = history_show_services(&service, range, diag);
    else if (!err && settings->function)
        err = uses(&service, settings, name, range, diag);
    else if (!err)
        err = query(&service, settings, name, range, format->format, path, diag);
    service_close(&service);
    return err;
}

static int on_history(int argc, char **argv) {
    struct settings settings = {0};
    struct history_range range;
    struct sonde_diag diag = {0};
    int status;
    if (!cli_options(&verb_history, &settings, false, &argc, argv, &status))
        return status;
    if (argc > 2)
        return cli_usage(&verb_history, "unexpected argument \"%s\"", argv[2]);
    if (settings.list && (argc > 1 || settings.output || settings.format || settings.event))
        return cli_usage(&verb_history, "--list shows all services and events; select with "
                                        "--from, --until and --selector");
    if (settings.changes &&
        (settings.list || settings.output || settings.format || settings.event ||
         settings.selector || settings.function || settings.processes))
        return cli_usage(&verb_history, "--changes prints a list, or with --json JSON; select "
                                        "with SERVICE, --from and --until");
    if (settings.function &&
        (settings.list || settings.processes || settings.output || settings.format))
        return cli_usage(&verb_history,
                         "--function prints a table, or with --json JSON; select with "
                         "SERVICE, --from, --until, --event and --selector");
    if (settings.processes && (argc > 1 || settings.event))
        return cli_usage(&verb_history, "--processes shows the CPU time of all services");
    if (history_read_range("from", settings.from, "until", settings.until, history_now_ns(), &range,
                           &diag))
        return cli_usage(&verb_history, "%s", diag.text);
    const char *path = settings.output ? settings.output : "-";
    const struct sonde_format_info *format =
        history_choose_format(settings.format, settings.output, FORMATS_ANY);
    if (!format)
        return format_refuse(&verb_history, settings.format, path, FORMATS_ANY);
    sonde_err err = answer(&settings, argc > 1 ? argv[1] : "", &range, format, path, &diag);
    return err ? cli_fail(&verb_history, err, &diag) : 0;
}

static const struct sonde_option table[] = {
    HISTORY_OPTIONS(struct settings),
    {"processes", 'p', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, processes), 0, 0,
     "CPU time of every process and thread of a host, without stacks"},
    {"output", 'o', "FILE", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, output), 0, 0,
     "output file, format by extension (default: a table on stdout)"},
    {"format", 0, "NAME", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, format), 0, 0,
     FORMAT_HELP},
    {"title", 0, "TEXT", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, title), 0, 0,
     "title of the picture"},
    HIDE_IDLE_OPTION(struct settings, hide_idle),
    THREADS_OPTIONS(struct settings, threads),
    {"list", 'l', NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, list), 0, 0,
     "list what was recorded: services, events, hosts, times and CPU time"},
    {"changes", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, changes), 0, 0,
     "list functions whose cost changed, which sonded --watch found"},
    {"function", 0, "NAME", NULL, SONDE_OPTION_TEXT, offsetof(struct settings, function), 0, 0,
     "which services spend time in this function; * = any characters"},
    {"json", 0, NULL, NULL, SONDE_OPTION_FLAG, offsetof(struct settings, json), 0, 0,
     "print the list, the changes, or the services of --function, as JSON"},
    SERVICE_OPTIONS(struct settings, service),
};

static const struct sonde_options options = {
    .usage = "sonde history [SERVICE] [--from -1h] [--until now] [-o FILE]",
    .about = "Shows what a service with --history recorded. Without SERVICE: CPU time by service,\n"
             "or with -o, -f, --event or --selector the sum of all.",
    .examples = "  sonde history\n"
                "  sonde history --function 'SSL_*' --from -24h\n"
                "  sonde history --changes shop --from -7d\n"
                "  sonde history redis-server --from -25h --until -24h -o yesterday.svg\n",
    .table = table,
    .count = COUNT_OF(table),
};

const struct verb verb_history = {"history", "show any range of what was recorded", on_history,
                                  &options};
