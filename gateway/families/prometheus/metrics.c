/* SPDX-License-Identifier: Apache-2.0
 *
 * /metrics: the service's counters in Prometheus' text format, from GetInfo, ListTargets and, if
 * history is kept, GetHistoryInfo. No label holds a pid or anything else that grows with the number
 * of processes that ever ran: processes of one name are summed. The metrics process_* are those of
 * sonded; the gateway's own have the prefix sonde_gateway_. */
#include "gateway/handlers.h"
#include "gateway/reply/relay.h"
#include "gateway/reply/reply.h"

#include "api/os/process_usage.h"
#include "api/settings/options.h"
#include "api/text/utf8.h"
#include "proto/sonde/v1/history.pb-c.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEADLINE_MS         5000
#define HISTORY_DEADLINE_MS 2000 /* it may be another service */
#define METRICS_TYPE        "text/plain; version=0.0.4; charset=utf-8"

struct metrics {
    struct relay relay;
    struct sonde_buf text;
};

static void append_head(struct sonde_buf *out, const char *name, const char *type,
                        const char *help) {
    sonde_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void append_number(struct sonde_buf *out, const char *name, const char *type, uint64_t value,
                          const char *help) {
    append_head(out, name, type, help);
    sonde_buf_printf(out, "%s %" PRIu64 "\n", name, value);
}

/* Escapes the value: a target chooses its own name. */
static void append_label(struct sonde_buf *out, const char *name, const char *value) {
    sonde_buf_printf(out, "%s=\"", name);
    for (size_t len = strlen(value), step = 1; len; value += step, len -= step, step = 1) {
        if (*value == '"' || *value == '\\')
            sonde_buf_printf(out, "\\%c", *value);
        else if (*value == '\n')
            sonde_buf_puts(out, "\\n");
        else
            step = sonde_utf8_put_next(out, value, len, '?');
    }
    sonde_buf_putc(out, '"');
}

static void append_seconds(struct sonde_buf *out, int64_t ns) {
    sonde_buf_printf(out, " %" PRId64 ".%03" PRId64 "\n", ns / 1000000000,
                     ns % 1000000000 / 1000000);
}

static void append_drops(struct sonde_buf *out, const Sonde__V1__Info *info) {
    append_head(out, "sonde_drops_total", "counter", "Samples lost, by cause.");
    for (size_t i = 0; i < info->n_drops_total; i++) {
        sonde_buf_puts(out, "sonde_drops_total{");
        append_label(out, "cause", info->drops_total[i]->cause);
        sonde_buf_printf(out, "} %" PRIu64 "\n", info->drops_total[i]->count);
    }
}

static void append_export(struct sonde_buf *out, const char *name,
                          const Sonde__V1__Export *export) {
    sonde_buf_printf(out, "sonde_export_%s{", name);
    append_label(out, "destination", export->destination);
}

/* Which of an Export's numbers is which metric. */
static const struct {
    const char *name, *type, *help;
    size_t offset;
} export_metrics[] = {
    {"profiles_total", "counter", "Recorded profiles that the receiver accepted.",
     offsetof(Sonde__V1__Export, sent)},
    {"retries_total", "counter", "Requests to the receiver that were repeated.",
     offsetof(Sonde__V1__Export, retries)},
    {"queue_bytes", "gauge", "Memory of the profiles that wait for the receiver.",
     offsetof(Sonde__V1__Export, queue_bytes)},
};

static void append_exports(struct sonde_buf *out, const Sonde__V1__Info *info) {
    char name[64];
    for (size_t m = 0; m < sizeof export_metrics / sizeof export_metrics[0]; m++) {
        snprintf(name, sizeof name, "sonde_export_%s", export_metrics[m].name);
        append_head(out, name, export_metrics[m].type, export_metrics[m].help);
        for (size_t i = 0; i < info->n_exports; i++) {
            uint64_t value;
            memcpy(&value, (const char *)info->exports[i] + export_metrics[m].offset, sizeof value);
            append_export(out, export_metrics[m].name, info->exports[i]);
            sonde_buf_printf(out, "} %" PRIu64 "\n", value);
        }
    }
}

static void append_export_losses(struct sonde_buf *out, const Sonde__V1__Export *export) {
    for (size_t i = 0; i < export->n_lost; i++) {
        append_export(out, "lost_total", export);
        sonde_buf_putc(out, ',');
        append_label(out, "cause", export->lost[i]->cause);
        sonde_buf_printf(out, "} %" PRIu64 "\n", export->lost[i]->count);
    }
}

/* Where the service sends what it records; most send nothing. */
static void append_all_exports(struct sonde_buf *out, const Sonde__V1__Info *info) {
    if (!info->n_exports)
        return;
    append_exports(out, info);
    append_head(out, "sonde_export_lost_total", "counter",
                "Recorded profiles that were lost, by cause.");
    for (size_t i = 0; i < info->n_exports; i++)
        append_export_losses(out, info->exports[i]);
    append_head(out, "sonde_export_working", "gauge", "1 unless profiles wait for the receiver.");
    for (size_t i = 0; i < info->n_exports; i++) {
        append_export(out, "working", info->exports[i]);
        sonde_buf_printf(out, "} %d\n", !info->exports[i]->trouble[0]);
    }
}

/* ---- Processes ---- */

static void append_time(struct sonde_buf *out, const char *name, const char *type, int64_t ns,
                        const char *help) {
    append_head(out, name, type, help);
    sonde_buf_puts(out, name);
    append_seconds(out, ns);
}

static void append_service(struct sonde_buf *out, const Sonde__V1__Info *info) {
    append_time(out, "process_cpu_seconds_total", "counter", (int64_t)info->cpu_ns,
                "CPU time of sonded.");
    append_number(out, "process_resident_memory_bytes", "gauge", info->resident_bytes,
                  "Resident memory of sonded.");
    append_number(out, "process_virtual_memory_bytes", "gauge", info->virtual_bytes,
                  "Virtual memory of sonded.");
    append_number(out, "process_open_fds", "gauge", info->open_fds,
                  "Open file descriptors of sonded.");
    append_number(out, "process_max_fds", "gauge", info->max_fds,
                  "Limit of open file descriptors of sonded.");
    append_time(out, "process_start_time_seconds", "gauge", info->start_unix_ns,
                "Start of sonded, Unix time.");
}

static void append_gateway(struct sonde_buf *out, const struct gateway *gateway) {
    struct process_usage usage;
    process_usage_read(&usage);
    append_time(out, "sonde_gateway_cpu_seconds_total", "counter", (int64_t)usage.cpu_ns,
                "CPU time of the gateway.");
    append_number(out, "sonde_gateway_resident_memory_bytes", "gauge", usage.resident_bytes,
                  "Resident memory of the gateway.");
    append_number(out, "sonde_gateway_virtual_memory_bytes", "gauge", usage.virtual_bytes,
                  "Virtual memory of the gateway.");
    append_number(out, "sonde_gateway_open_fds", "gauge", usage.open_fds,
                  "Open file descriptors of the gateway.");
    append_number(out, "sonde_gateway_max_fds", "gauge", usage.max_fds,
                  "Limit of open file descriptors of the gateway.");
    append_number(out, "sonde_gateway_requests_running", "gauge", gateway->relays,
                  "Requests that the gateway is answering.");
}

static void append_builds(struct sonde_buf *out, const Sonde__V1__Info *info) {
    append_head(out, "sonde_build_info", "gauge", "Versions of the programs.");
    sonde_buf_puts(out, "sonde_build_info{");
    append_label(out, "version", info->version);
    sonde_buf_puts(out, ",");
    append_label(out, "gateway_version", SONDE_VERSION);
    sonde_buf_puts(out, "} 1\n");
}

/* ---- The service ---- */

static void append_functions(struct sonde_buf *out, const Sonde__V1__Info *info) {
    if (info->n_function_times == 0)
        return;
    append_head(out, "sonde_function_cpu_seconds_total", "counter",
                "CPU time of samples with the function anywhere on the stack.");
    for (size_t i = 0; i < info->n_function_times; i++) {
        const Sonde__V1__FunctionTime *time = info->function_times[i];
        sonde_buf_puts(out, "sonde_function_cpu_seconds_total{");
        append_label(out, "target", time->target);
        sonde_buf_puts(out, ",");
        append_label(out, "function", time->function);
        sonde_buf_puts(out, "}");
        append_seconds(out, (int64_t)time->cpu_ns);
    }
}

static void on_info(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__Info *info = (const void *)message;
    struct sonde_buf *out = &((struct metrics *)relay)->text;
    append_builds(out, info);
    append_service(out, info);
    append_gateway(out, relay->gateway);
    append_number(out, "sonde_targets", "gauge", info->targets, "Attached processes.");
    append_number(out, "sonde_captures_running", "gauge", info->captures_running,
                  "Captures that are running.");
    append_number(out, "sonde_captures_total", "counter", info->captures_total,
                  "Captures since the start.");
    append_number(out, "sonde_streams_running", "gauge", info->streams_running,
                  "Live streams that are running.");
    append_number(out, "sonde_samples_total", "counter", info->samples_total, "Samples taken.");
    append_drops(out, info);
    append_all_exports(out, info);
    append_functions(out, info);
}

/* ---- Targets, by name ---- */

/* The processes of one name. */
struct name_totals {
    const char *name;
    uint64_t processes, captures_running;
    int64_t oldest_start_ns;
};

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct name_totals *)a)->name, ((const struct name_totals *)b)->name);
}

/* Sorts the targets by name and adds up those of one name; returns the number of names. */
static size_t sum_names(const Sonde__V1__ListTargetsResponse *list, struct name_totals *names) {
    size_t count = 0;
    for (size_t i = 0; i < list->n_targets; i++) {
        const Sonde__V1__Target *target = list->targets[i];
        names[i] =
            (struct name_totals){target->name, 1, target->captures_running, target->start_unix_ns};
    }
    qsort(names, list->n_targets, sizeof *names, by_name);
    for (size_t i = 0; i < list->n_targets; i++) {
        struct name_totals *last = count ? &names[count - 1] : NULL;
        if (!last || strcmp(last->name, names[i].name) != 0) {
            names[count++] = names[i];
            continue;
        }
        last->processes++;
        last->captures_running += names[i].captures_running;
        if (names[i].oldest_start_ns < last->oldest_start_ns)
            last->oldest_start_ns = names[i].oldest_start_ns;
    }
    return count;
}

static void append_target(struct sonde_buf *out, const char *metric,
                          const struct name_totals *name) {
    sonde_buf_printf(out, "%s{", metric);
    append_label(out, "target", name->name);
    sonde_buf_puts(out, "}");
}

static void append_counts(struct sonde_buf *out, const char *metric, const char *help,
                          const struct name_totals *names, size_t count, bool of_captures) {
    append_head(out, metric, "gauge", help);
    for (size_t i = 0; i < count; i++) {
        append_target(out, metric, &names[i]);
        sonde_buf_printf(out, " %" PRIu64 "\n",
                         of_captures ? names[i].captures_running : names[i].processes);
    }
}

static void on_targets(struct relay *relay, const ProtobufCMessage *message) {
    static const char start[] = "sonde_target_start_time_seconds";
    const Sonde__V1__ListTargetsResponse *list = (const void *)message;
    struct sonde_buf *out = &((struct metrics *)relay)->text;
    struct name_totals *names = calloc(list->n_targets + 1, sizeof *names);
    if (!names)
        abort();
    size_t count = sum_names(list, names);
    append_counts(out, "sonde_target_processes", "Attached processes of this name.", names, count,
                  false);
    append_counts(out, "sonde_target_captures_running",
                  "Captures of processes of this name that are running.", names, count, true);
    append_head(out, start, "gauge", "Start of the oldest process of this name, Unix time.");
    for (size_t i = 0; i < count; i++) {
        append_target(out, start, &names[i]);
        append_seconds(out, names[i].oldest_start_ns);
    }
    free(names);
}

static void append_webhook(struct sonde_buf *out, const Sonde__V1__WebhookInfo *info) {
    append_number(out, "sonde_change_webhook_working", "gauge", !info->trouble[0],
                  "1 if the last change could be sent to the webhook.");
    append_number(out, "sonde_change_webhook_sent_total", "counter", info->sent,
                  "Changes that the webhook's receiver accepted.");
    append_number(out, "sonde_change_webhook_retries_total", "counter", info->retries,
                  "Requests to the webhook that were repeated.");
    append_head(out, "sonde_change_webhook_lost_total", "counter",
                "Changes that were not sent, by cause.");
    for (size_t i = 0; i < info->n_lost; i++) {
        sonde_buf_puts(out, "sonde_change_webhook_lost_total{");
        append_label(out, "cause", info->lost[i]->cause);
        sonde_buf_printf(out, "} %" PRIu64 "\n", info->lost[i]->changes);
    }
}

static void append_watch(struct sonde_buf *out, const Sonde__V1__WatchInfo *info) {
    append_number(out, "sonde_change_working", "gauge", !info->trouble[0],
                  "1 if history can be looked at for changes at the moment.");
    append_number(out, "sonde_change_services", "gauge", info->services,
                  "Services that are looked at.");
    append_number(out, "sonde_change_functions", "gauge", info->functions,
                  "Functions that are looked at.");
    append_number(out, "sonde_change_found_total", "counter", info->changes,
                  "Changes that were found since the start.");
    append_number(out, "sonde_change_repeated_total", "counter", info->repeated,
                  "Changes that were found again and not reported.");
    append_number(out, "sonde_change_failed_total", "counter", info->failed,
                  "Changes that could not be explained or stored.");
    append_number(out, "sonde_change_until_seconds", "gauge",
                  (uint64_t)info->until_unix_ns / 1000000000,
                  "Unix time until which history was looked at.");
    append_number(out, "sonde_change_skipped_slots_total", "counter", info->skipped_slots,
                  "Slots of 5 minutes that were not looked at.");
    append_number(out, "sonde_change_skipped_services", "gauge", info->skipped_services,
                  "Services that are not looked at, because they are too many.");
    if (info->webhook)
        append_webhook(out, info->webhook);
}

static void on_history(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__HistoryInfo *info = (const void *)message;
    struct sonde_buf *out = &((struct metrics *)relay)->text;
    append_number(out, "sonde_history_working", "gauge", !info->trouble[0],
                  "1 if windows can be stored at the moment.");
    append_number(out, "sonde_history_recording_targets", "gauge", info->recording_targets,
                  "Processes that are being recorded.");
    append_number(out, "sonde_history_bytes", "gauge", info->size_bytes, "Size of the history.");
    append_number(out, "sonde_history_limit_bytes", "gauge", info->size_limit_bytes,
                  "Its limit; 0 = none.");
    append_number(out, "sonde_history_windows", "gauge", info->windows, "Windows in the history.");
    append_number(out, "sonde_history_samples", "gauge", info->samples, "Samples in the history.");
    append_number(out, "sonde_history_dropped_samples", "gauge", info->dropped,
                  "Samples lost before they reached the history.");
    append_number(out, "sonde_history_lost_windows_total", "counter", info->lost_windows,
                  "Windows that could not be stored since the start.");
    append_number(out, "sonde_history_off_cpu_left_out", "gauge", info->off_cpu_left_out,
                  "Processes without off-CPU time, because too many others have it.");
    if (info->watch)
        append_watch(out, info->watch);
}

/* Many services keep no history: then its numbers are left out. */
static void on_history_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    struct sonde_buf *out = &((struct metrics *)relay)->text;
    reply_bytes(relay_take_request(relay), METRICS_TYPE, sonde_buf_slice(out));
}

static void on_targets_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    static const struct relay_events events = {.on_message = on_history,
                                               .on_end = on_history_ended};
    Sonde__V1__GetHistoryInfoRequest request = SONDE__V1__GET_HISTORY_INFO_REQUEST__INIT;
    if (err) {
        relay_refuse(relay, err, diag);
        return;
    }
    relay->events = &events;
    relay_call(relay, &client_get_history_info, &request.base, HISTORY_DEADLINE_MS);
}

static void on_info_ended(struct relay *relay, sonde_err err, const struct sonde_diag *diag) {
    static const struct relay_events events = {.on_message = on_targets,
                                               .on_end = on_targets_ended};
    Sonde__V1__ListTargetsRequest request = SONDE__V1__LIST_TARGETS_REQUEST__INIT;
    if (err) {
        relay_refuse(relay, err, diag);
        return;
    }
    relay->events = &events;
    relay_call(relay, &client_list_targets, &request.base, DEADLINE_MS);
}

static void finish(struct relay *relay) {
    sonde_buf_finish(&((struct metrics *)relay)->text);
}

void handle_metrics(const struct request_context *context) {
    static const struct relay_events events = {on_info, on_info_ended, finish};
    Sonde__V1__GetInfoRequest request = SONDE__V1__GET_INFO_REQUEST__INIT;
    struct metrics *metrics = relay_create(context, sizeof *metrics, &events);
    relay_call(&metrics->relay, &client_get_info, &request.base, DEADLINE_MS);
}
