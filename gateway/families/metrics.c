/* SPDX-License-Identifier: Apache-2.0
 *
 * /metrics: the service's counters in Prometheus' text format, from GetInfo, ListTargets and, if
 * history is kept, GetHistoryInfo. */
#include "gateway/handlers.h"
#include "gateway/reply/relay.h"
#include "gateway/reply/reply.h"
#include "proto/sonde/v1/history.pb-c.h"

#include <inttypes.h>

#define DEADLINE_MS         5000
#define HISTORY_DEADLINE_MS 2000 /* it may be another service */
#define METRICS_TYPE        "text/plain; version=0.0.4; charset=utf-8"

struct metrics {
    struct relay relay;
    struct sonde_buf text;
};

static void append_head(struct sonde_buf *out, const char *name, const char *type,
                        const char *help) {
    sonde_buf_printf(out, "# HELP sonde_%s %s\n# TYPE sonde_%s %s\n", name, help, name, type);
}

static void append_number(struct sonde_buf *out, const char *name, const char *type, uint64_t value,
                          const char *help) {
    append_head(out, name, type, help);
    sonde_buf_printf(out, "sonde_%s %" PRIu64 "\n", name, value);
}

/* Escapes the value: a target chooses its own name. */
static void append_label(struct sonde_buf *out, const char *name, const char *value) {
    sonde_buf_printf(out, "%s=\"", name);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            sonde_buf_printf(out, "\\%c", *value);
        else if (*value == '\n')
            sonde_buf_puts(out, "\\n");
        else
            sonde_buf_putc(out, (unsigned char)*value < ' ' || *value == 0x7f ? '?' : *value);
    }
    sonde_buf_putc(out, '"');
}

static void append_seconds(struct sonde_buf *out, int64_t ns) {
    sonde_buf_printf(out, " %" PRId64 ".%03" PRId64 "\n", ns / 1000000000,
                     ns % 1000000000 / 1000000);
}

static void append_drops(struct sonde_buf *out, const Sonde__V1__Info *info) {
    append_head(out, "drops_total", "counter", "Samples lost, by cause.");
    for (size_t i = 0; i < info->n_drops_total; i++) {
        sonde_buf_puts(out, "sonde_drops_total{");
        append_label(out, "cause", info->drops_total[i]->cause);
        sonde_buf_printf(out, "} %" PRIu64 "\n", info->drops_total[i]->count);
    }
}

static void on_info(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__Info *info = (const void *)message;
    struct sonde_buf *out = &((struct metrics *)relay)->text;
    append_head(out, "info", "gauge", "Version of the service.");
    sonde_buf_puts(out, "sonde_info{");
    append_label(out, "version", info->version);
    sonde_buf_puts(out, "} 1\n");
    append_head(out, "start_time_seconds", "gauge", "Start of the service, Unix time.");
    sonde_buf_puts(out, "sonde_start_time_seconds");
    append_seconds(out, info->start_unix_ns);
    append_head(out, "cpu_seconds_total", "counter", "CPU time of the service.");
    sonde_buf_puts(out, "sonde_cpu_seconds_total");
    append_seconds(out, (int64_t)info->cpu_ns);
    append_number(out, "resident_bytes", "gauge", info->resident_bytes,
                  "Resident memory of the service.");
    append_number(out, "targets", "gauge", info->targets, "Attached processes.");
    append_number(out, "captures_running", "gauge", info->captures_running,
                  "Captures that are running.");
    append_number(out, "captures_total", "counter", info->captures_total,
                  "Captures since the start.");
    append_number(out, "streams_running", "gauge", info->streams_running,
                  "Live streams that are running.");
    append_number(out, "samples_total", "counter", info->samples_total, "Samples taken.");
    append_drops(out, info);
}

static void append_target(struct sonde_buf *out, const char *name,
                          const Sonde__V1__Target *target) {
    sonde_buf_printf(out, "sonde_target_%s{", name);
    append_label(out, "target", target->name);
    sonde_buf_printf(out, ",pid=\"%" PRId32 "\"}", target->pid);
}

static void on_targets(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__ListTargetsResponse *list = (const void *)message;
    struct sonde_buf *out = &((struct metrics *)relay)->text;
    append_head(out, "target_start_time_seconds", "gauge", "Start of the process, Unix time.");
    for (size_t i = 0; i < list->n_targets; i++) {
        append_target(out, "start_time_seconds", list->targets[i]);
        append_seconds(out, list->targets[i]->start_unix_ns);
    }
    append_head(out, "target_captures_running", "gauge",
                "Captures of the process that are running.");
    for (size_t i = 0; i < list->n_targets; i++) {
        append_target(out, "captures_running", list->targets[i]);
        sonde_buf_printf(out, " %" PRIu32 "\n", list->targets[i]->captures_running);
    }
}

static void on_history(struct relay *relay, const ProtobufCMessage *message) {
    const Sonde__V1__HistoryInfo *info = (const void *)message;
    struct sonde_buf *out = &((struct metrics *)relay)->text;
    append_number(out, "history_working", "gauge", !info->trouble[0],
                  "1 if windows can be stored at the moment.");
    append_number(out, "history_recording_targets", "gauge", info->recording_targets,
                  "Processes that are being recorded.");
    append_number(out, "history_bytes", "gauge", info->size_bytes, "Size of the history.");
    append_number(out, "history_limit_bytes", "gauge", info->size_limit_bytes,
                  "Its limit; 0 = none.");
    append_number(out, "history_windows", "gauge", info->windows, "Windows in the history.");
    append_number(out, "history_samples", "gauge", info->samples, "Samples in the history.");
    append_number(out, "history_dropped_samples", "gauge", info->dropped,
                  "Samples lost before they reached the history.");
    append_number(out, "history_lost_windows_total", "counter", info->lost_windows,
                  "Windows that could not be stored since the start.");
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
