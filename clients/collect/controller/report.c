/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/controller/controller_state.h"

#include "api/json/json.h"
#include "api/text/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *host_state_name(enum host_state state) {
    static const char *const names[HOST_STATES] = {
        [HOST_WAITING] = "waiting",     [HOST_CONNECTING] = "connecting",
        [HOST_CONNECTED] = "connected", [HOST_REFUSED] = "refused",
        [HOST_ELSEWHERE] = "elsewhere",
    };
    return names[state];
}

/* ---- Sums ---- */

static void add_host(struct controller_report *report, const struct host *host) {
    const struct host_status *status = &host->status;
    report->hosts[host->state]++;
    if (host->state == HOST_CONNECTED)
        report->targets += status->targets;
    host_losses(host, report->lost);
    if (host->state == HOST_ELSEWHERE)
        return; /* what it said last is old */
    report->merged_windows += status->merged_windows;
    report->lost_samples += status->lost_samples;
    report->kept_bytes += status->kept_bytes;
}

void controller_report(struct controller *controller, struct controller_report *report) {
    *report = (struct controller_report){.lag_ns = 0};
    lock(controller);
    report->is_paused = controller->is_paused;
    report->is_breaker_open = breaker_is_open(controller->breaker, now_monotonic_ms());
    report->windows = controller->windows;
    report->rows = controller->rows;
    report->samples = controller->samples;
    report->bytes = controller->bytes_received;
    report->too_large = controller->too_large;
    losses_add(report->lost, controller->lost_by_gone);
    for (size_t i = 0; i < controller->host_count; i++)
        add_host(report, controller->hosts[i]);
    if (controller->deliver)
        deliver_state(controller->deliver, &report->deliver);
    spool_state(controller->options.spool, &report->spool);
    unlock(controller);
    int64_t now_ns = now_unix_ns();
    if (report->spool.oldest_unix_ns && now_ns > report->spool.oldest_unix_ns)
        report->lag_ns = now_ns - report->spool.oldest_unix_ns;
}

uint64_t report_lost(const struct controller_report *report) {
    uint64_t lost = report->too_large + report->deliver.rejected + report->deliver.refused_windows;
    for (size_t i = 0; i < MAX_LOSSES; i++)
        lost += report->lost[i].count;
    return lost;
}

void controller_line(struct controller *controller, char *text, size_t size) {
    struct controller_report report;
    controller_report(controller, &report);
    const char *trouble = report.spool.trouble[0] ? report.spool.trouble : report.deliver.trouble;
    size_t hosts = 0;
    for (size_t i = 0; i < HOST_STATES; i++)
        hosts += i == HOST_ELSEWHERE ? 0 : report.hosts[i];
    snprintf(text, size,
             "%zu of %zu hosts are connected%s, %zu refuse; windows: %" PRIu64 " received, %" PRIu64
             " stored, %" PRIu64 " twice, %" PRIu64 " lost; spool: %" PRIu64 " KiB, %" PRId64
             " s behind%s%s",
             report.hosts[HOST_CONNECTED], hosts, report.is_paused ? " (paused)" : "",
             report.hosts[HOST_REFUSED], report.windows, report.deliver.windows_stored,
             report.deliver.duplicates, report_lost(&report), report.spool.bytes >> 10,
             report.lag_ns / 1000000000, trouble[0] ? "; " : "", trouble);
}

/* ---- Hosts ---- */

static struct sonde_slice slice(const char *text) {
    return (struct sonde_slice){text, strlen(text)};
}

static void put_text(struct sonde_buf *out, const char *name, const char *value) {
    sonde_buf_printf(out, ", \"%s\": ", name);
    sonde_json_string(out, slice(value));
}

static void put_number(struct sonde_buf *out, const char *name, uint64_t value) {
    sonde_buf_printf(out, ", \"%s\": %" PRIu64, name, value);
}

static void put_labels(struct sonde_buf *out, const struct host *host) {
    sonde_buf_puts(out, ", \"labels\": {");
    for (size_t i = 0; i < host->label_count; i++) {
        sonde_buf_puts(out, i ? ", " : "");
        sonde_json_string(out, slice(host->labels[i].name));
        sonde_buf_puts(out, ": ");
        sonde_json_string(out, slice(host->labels[i].value));
    }
    sonde_buf_puts(out, "}");
}

static void put_losses(struct sonde_buf *out, const struct host *host) {
    struct loss lost[MAX_LOSSES] = {{.count = 0}};
    host_losses(host, lost);
    sonde_buf_puts(out, ", \"lost_windows\": {");
    for (size_t i = 0; i < MAX_LOSSES && lost[i].count > 0; i++) {
        sonde_buf_puts(out, i ? ", " : "");
        sonde_json_string(out, slice(lost[i].cause));
        sonde_buf_printf(out, ": %" PRIu64, lost[i].count);
    }
    sonde_buf_puts(out, "}");
}

const char *host_trouble(const struct host *host) {
    if (host->state == HOST_ELSEWHERE)
        return "";
    const char *text = host->state == HOST_CONNECTED ? host->status.trouble : host->last_error;
    return text[0] ? text : host->twin_trouble;
}

bool host_is_well(const struct host *host) {
    return host->state == HOST_ELSEWHERE ||
           (host->state == HOST_CONNECTED && !host_trouble(host)[0]);
}

static void put_host(struct sonde_buf *out, const struct controller *controller,
                     const struct host *host, int64_t now_ms) {
    sonde_buf_puts(out, "{\"name\": ");
    sonde_json_string(out, slice(host->name));
    put_text(out, "address", host->address);
    put_text(out, "source", host->origin ? host->origin : "");
    put_text(out, "state", host_state_name(host->state));
    put_text(out, "controller", sharing_owner(controller, host));
    put_text(out, "trouble", host_trouble(host));
    put_number(out, "failures_in_a_row", host->failures);
    bool is_due = !host->link && !host->is_registered && host->next_try_ms > now_ms;
    put_number(out, "next_try_s", is_due ? (uint64_t)(host->next_try_ms - now_ms) / 1000 : 0);
    put_text(out, "version", host->version);
    put_text(out, "instance", host->instance);
    put_text(out, "host", host->host);
    put_number(out, "epoch", host->epoch);
    put_labels(out, host);
    put_number(out, "targets", host->status.targets);
    put_text(out, "refusal", host->status.refusal);
    put_number(out, "windows", host->windows);
    put_number(out, "bytes", host->bytes_received);
    put_number(out, "last_window_unix_s", (uint64_t)host->last_window_unix_ns / 1000000000);
    put_number(out, "kept_bytes", host->status.kept_bytes);
    put_number(out, "merged_windows", host->status.merged_windows);
    put_number(out, "lost_samples", host->status.lost_samples);
    put_losses(out, host);
    sonde_buf_puts(out, "}");
}

void controller_hosts_json(struct controller *controller, const char *name, struct sonde_buf *out) {
    int64_t now_ms = now_monotonic_ms();
    bool is_first = true;
    sonde_buf_puts(out, "[");
    lock(controller);
    for (size_t i = 0; i < controller->host_count; i++) {
        if (name && strcmp(controller->hosts[i]->name, name) != 0)
            continue;
        sonde_buf_puts(out, is_first ? "\n" : ",\n");
        put_host(out, controller, controller->hosts[i], now_ms);
        is_first = false;
    }
    unlock(controller);
    sonde_buf_puts(out, "\n]\n");
}

/* Names and what hosts say have no line breaks when they are printed. */
static void put_plain(struct sonde_buf *out, const char *text) {
    sonde_utf8_put(out, text, '?');
}

static void put_line(struct sonde_buf *out, const struct host *host) {
    put_plain(out, host->name);
    sonde_buf_puts(out, " (");
    put_plain(out, host->address);
    sonde_buf_printf(out, "): %s; processes: %" PRIu32 ", windows: %" PRIu64,
                     host_state_name(host->state),
                     host->state == HOST_CONNECTED ? host->status.targets : 0, host->windows);
    sonde_buf_puts(out, host_trouble(host)[0] ? "; " : "");
    put_plain(out, host_trouble(host));
    sonde_buf_puts(out, "\n");
}

void controller_hosts_text(struct controller *controller, struct sonde_buf *out) {
    lock(controller);
    for (int well = 0; well <= 1; well++)
        for (size_t i = 0; i < controller->host_count; i++)
            if (host_is_well(controller->hosts[i]) == well)
                put_line(out, controller->hosts[i]);
    unlock(controller);
}
