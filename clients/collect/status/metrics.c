/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/status/metrics.h"

#include "api/os/process_usage.h"
#include "api/settings/options.h"

#include <inttypes.h>
#include <stddef.h>

static void put_head(struct sonde_buf *out, const char *name, const char *type, const char *help) {
    sonde_buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_number(struct sonde_buf *out, const char *name, const char *type, uint64_t value,
                       const char *help) {
    put_head(out, name, type, help);
    sonde_buf_printf(out, "%s %" PRIu64 "\n", name, value);
}

static void put_seconds(struct sonde_buf *out, const char *name, const char *type, int64_t ns,
                        const char *help) {
    put_head(out, name, type, help);
    sonde_buf_printf(out, "%s %" PRId64 ".%03" PRId64 "\n", name, ns / 1000000000,
                     ns % 1000000000 / 1000000);
}

/* A host chooses what it calls a cause. */
static void put_cause(struct sonde_buf *out, const char *cause, uint64_t count) {
    sonde_buf_puts(out, "sonde_collect_lost_windows_total{cause=\"");
    for (; *cause; cause++)
        sonde_buf_putc(
            out, *cause > ' ' && *cause < 0x7f && *cause != '"' && *cause != '\\' ? *cause : '_');
    sonde_buf_printf(out, "\"} %" PRIu64 "\n", count);
}

static void put_lost(struct sonde_buf *out, const struct controller_report *report) {
    put_head(out, "sonde_collect_lost_windows_total", "counter",
             "Windows that are lost: on hosts by their cause, here, or refused by History.");
    for (size_t i = 0; i < MAX_LOSSES; i++)
        if (report->lost[i].cause[0])
            put_cause(out, report->lost[i].cause, report->lost[i].count);
    put_cause(out, "controller:too_large", report->too_large);
    put_cause(out, "history:refused", report->deliver.refused_windows);
    put_cause(out, "history:rejected", report->deliver.rejected);
}

static void put_hosts(struct sonde_buf *out, const struct controller_report *report) {
    put_head(out, "sonde_collect_hosts", "gauge",
             "Hosts by state: waiting for the next try, connecting, connected, refused, elsewhere "
             "(another controller has them).");
    for (size_t i = 0; i < HOST_STATES; i++)
        sonde_buf_printf(out, "sonde_collect_hosts{state=\"%s\"} %zu\n", host_state_name(i),
                         report->hosts[i]);
}

/* Which of a report's numbers is which metric. */
static const struct {
    const char *name, *type, *help;
    size_t offset;
} numbers[] = {
    {"sonde_collect_targets", "gauge", "Processes that connected hosts record.",
     offsetof(struct controller_report, targets)},
    {"sonde_collect_windows_total", "counter", "Windows received.",
     offsetof(struct controller_report, windows)},
    {"sonde_collect_rows_total", "counter", "Rows of windows received.",
     offsetof(struct controller_report, rows)},
    {"sonde_collect_samples_total", "counter", "Samples received.",
     offsetof(struct controller_report, samples)},
    {"sonde_collect_received_bytes_total", "counter",
     "Messages of hosts, in bytes before compression.", offsetof(struct controller_report, bytes)},
    {"sonde_collect_host_kept_bytes", "gauge", "Windows that wait on hosts.",
     offsetof(struct controller_report, kept_bytes)},
    {"sonde_collect_host_merged_windows", "gauge",
     "Windows that hosts merged because they could not send them, in their present sessions.",
     offsetof(struct controller_report, merged_windows)},
    {"sonde_collect_host_lost_samples", "gauge",
     "Samples that hosts lost before they were windows, in their present sessions.",
     offsetof(struct controller_report, lost_samples)},
    {"sonde_collect_stored_windows_total", "counter", "Windows that History stored.",
     offsetof(struct controller_report, deliver.windows_stored)},
    {"sonde_collect_duplicate_windows_total", "counter",
     "Windows that History had already and ignored.",
     offsetof(struct controller_report, deliver.duplicates)},
    {"sonde_collect_history_requests_total", "counter", "Requests to History.",
     offsetof(struct controller_report, deliver.requests)},
    {"sonde_collect_history_retries_total", "counter", "Requests to History that were repeated.",
     offsetof(struct controller_report, deliver.retries)},
    {"sonde_collect_spool_bytes", "gauge", "The spool's files.",
     offsetof(struct controller_report, spool.bytes)},
    {"sonde_collect_spool_limit_bytes", "gauge",
     "Size of the spool at which hosts keep their windows.",
     offsetof(struct controller_report, spool.limit_bytes)},
    {"sonde_collect_spool_damaged_bytes_total", "counter",
     "Bytes of the spool that could not be read back; the files are set aside.",
     offsetof(struct controller_report, spool.damaged_bytes)},
};

static void put_flags(struct sonde_buf *out, const struct controller_report *report) {
    put_number(out, "sonde_collect_paused", "gauge", report->is_paused,
               "1 while the kill switch is on.");
    put_number(out, "sonde_collect_breaker_open", "gauge", report->is_breaker_open,
               "1 while so many hosts fail that no others are tried.");
    put_number(out, "sonde_collect_spool_blocked", "gauge", report->spool.trouble[0] != 0,
               "1 while nothing can be added to the spool; hosts keep their windows.");
    put_number(out, "sonde_collect_history_away", "gauge", report->deliver.trouble[0] != 0,
               "1 while History does not take windows.");
}

static void put_process(struct sonde_buf *out) {
    struct process_usage usage;
    process_usage_read(&usage);
    put_seconds(out, "process_cpu_seconds_total", "counter", (int64_t)usage.cpu_ns,
                "CPU time of sonde-collect.");
    put_number(out, "process_resident_memory_bytes", "gauge", usage.resident_bytes,
               "Memory of sonde-collect.");
    put_number(out, "process_virtual_memory_bytes", "gauge", usage.virtual_bytes,
               "Address space of sonde-collect.");
    put_number(out, "process_open_fds", "gauge", usage.open_fds, "Open file descriptors.");
    put_number(out, "process_max_fds", "gauge", usage.max_fds, "Limit of file descriptors.");
}

void metrics_text(struct sonde_buf *out, const struct controller_report *report) {
    put_head(out, "sonde_collect_build_info", "gauge", "Version of sonde-collect.");
    sonde_buf_printf(out, "sonde_collect_build_info{version=\"%s\"} 1\n", SONDE_VERSION);
    put_hosts(out, report);
    put_flags(out, report);
    put_seconds(out, "sonde_collect_lag_seconds", "gauge", report->lag_ns,
                "Age of the oldest window that History does not have.");
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        put_number(out, numbers[i].name, numbers[i].type,
                   *(const uint64_t *)(const void *)((const char *)report + numbers[i].offset),
                   numbers[i].help);
    put_lost(out, report);
    put_process(out);
}
