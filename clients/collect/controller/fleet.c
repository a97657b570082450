/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/collect/controller/fleet.h"

#include "api/settings/options.h"
#include "clients/collect/controller/controller_state.h"

#include <string.h>

/* Texts are borrowed: nothing changes or frees them. */
static char *text(const char *from) {
    return (char *)(from ? from : "");
}

static bool put_losses(struct sonde_arena *arena, const struct loss *losses,
                       Sonde__V1__Drop ***drops, size_t *count) {
    *drops = sonde_arena_alloc(arena, MAX_LOSSES * sizeof **drops);
    Sonde__V1__Drop *rows = sonde_arena_alloc(arena, MAX_LOSSES * sizeof *rows);
    for (size_t i = 0; i < MAX_LOSSES && *drops && rows; i++) {
        if (losses[i].count == 0)
            continue;
        sonde__v1__drop__init(&rows[i]);
        rows[i].cause = sonde_arena_dup(arena, losses[i].cause, strlen(losses[i].cause));
        rows[i].count = losses[i].count;
        (*drops)[(*count)++] = &rows[i];
        if (!rows[i].cause)
            return false;
    }
    return *drops && rows;
}

/* ---- The fleet ---- */

/* Windows that this side lost, beside those of the hosts. */
static void add_own_losses(const struct controller_report *report, struct loss *lost) {
    loss_add(lost, "too_large", report->too_large);
    loss_add(lost, "rejected", report->deliver.rejected);
    loss_add(lost, "refused", report->deliver.refused_windows);
}

static void fill_sums(Sonde__V1__Fleet *fleet, const struct controller_report *report) {
    fleet->hosts_connected = (uint32_t)report->hosts[HOST_CONNECTED];
    fleet->hosts_connecting = (uint32_t)report->hosts[HOST_CONNECTING];
    fleet->hosts_waiting = (uint32_t)report->hosts[HOST_WAITING];
    fleet->hosts_refused = (uint32_t)report->hosts[HOST_REFUSED];
    fleet->hosts_elsewhere = (uint32_t)report->hosts[HOST_ELSEWHERE];
    fleet->targets = report->targets;
    fleet->is_paused = report->is_paused;
    fleet->is_breaker_open = report->is_breaker_open;
    fleet->windows = report->windows;
    fleet->rows = report->rows;
    fleet->samples = report->samples;
    fleet->bytes = report->bytes;
    fleet->stored_windows = report->deliver.windows_stored;
    fleet->duplicate_windows = report->deliver.duplicates;
    fleet->merged_windows = report->merged_windows;
    fleet->kept_bytes = report->kept_bytes;
    fleet->spool_bytes = report->spool.bytes;
    fleet->spool_limit_bytes = report->spool.limit_bytes;
    fleet->lag_ns = report->lag_ns;
    fleet->trouble =
        text(report->spool.trouble[0] ? report->spool.trouble : report->deliver.trouble);
}

sonde_err fleet_describe(struct controller *controller,
                         void (*take)(void *context, const Sonde__V1__Fleet *fleet),
                         void *context) {
    struct controller_report report;
    struct sonde_arena arena = {0};
    struct loss lost[MAX_LOSSES];
    Sonde__V1__Fleet fleet = SONDE__V1__FLEET__INIT;
    controller_report(controller, &report);
    memcpy(lost, report.lost, sizeof lost);
    add_own_losses(&report, lost);
    fill_sums(&fleet, &report);
    fleet.version = text(SONDE_VERSION);
    bool is_good = put_losses(&arena, lost, &fleet.lost_windows, &fleet.n_lost_windows);
    lock(controller);
    fleet.controller = text(controller->options.name);
    fleet.start_unix_ns = controller->start_unix_ns;
    fleet.pause_reason = text(controller->pause_reason);
    fleet.members = controller->members;
    fleet.n_members = controller->member_count;
    fleet.budgets = budget_report(controller->budget, &fleet.n_budgets);
    if (is_good)
        take(context, &fleet);
    unlock(controller);
    sonde_arena_finish(&arena);
    return is_good ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

/* ---- Hosts ---- */

static bool put_labels(struct sonde_arena *arena, const struct host *host,
                       Sonde__V1__FleetHost *to) {
    to->labels = sonde_arena_alloc(arena, (host->label_count + 1) * sizeof *to->labels);
    Sonde__V1__CollectLabel *rows =
        sonde_arena_alloc(arena, (host->label_count + 1) * sizeof *rows);
    for (size_t i = 0; i < host->label_count && to->labels && rows; i++) {
        sonde__v1__collect_label__init(&rows[i]);
        rows[i].name = text(host->labels[i].name);
        rows[i].value = text(host->labels[i].value);
        to->labels[to->n_labels++] = &rows[i];
    }
    return to->labels && rows;
}

static void fill_host(Sonde__V1__FleetHost *to, const struct host *host, int64_t now_ms) {
    static const Sonde__V1__FleetHostState states[HOST_STATES] = {
        [HOST_WAITING] = SONDE__V1__FLEET_HOST_STATE__FLEET_HOST_WAITING,
        [HOST_CONNECTING] = SONDE__V1__FLEET_HOST_STATE__FLEET_HOST_CONNECTING,
        [HOST_CONNECTED] = SONDE__V1__FLEET_HOST_STATE__FLEET_HOST_CONNECTED,
        [HOST_REFUSED] = SONDE__V1__FLEET_HOST_STATE__FLEET_HOST_REFUSED,
        [HOST_ELSEWHERE] = SONDE__V1__FLEET_HOST_STATE__FLEET_HOST_ELSEWHERE,
    };
    bool is_due = !host->link && !host->is_registered && host->next_try_ms > now_ms;
    to->name = text(host->name);
    to->address = text(host->address);
    to->source = text(host->origin);
    to->state = states[host->state];
    to->trouble = text(host_trouble(host));
    to->failures = host->failures;
    to->next_try_ns = is_due ? (host->next_try_ms - now_ms) * 1000000 : 0;
    to->connected_unix_ns = host->state == HOST_CONNECTED ? host->connected_unix_ns : 0;
    to->last_window_unix_ns = host->last_window_unix_ns;
    to->version = text(host->version);
    to->instance = text(host->instance);
    to->host = text(host->host);
    to->epoch = host->epoch;
    to->clock_offset_ns = host->clock_offset_ns;
    to->targets = host->state == HOST_CONNECTED ? host->status.targets : 0;
    to->refusal = text(host->status.refusal);
    to->windows = host->windows;
    to->bytes = host->bytes_received;
    to->kept_bytes = host->status.kept_bytes;
    to->merged_windows = host->status.merged_windows;
    to->lost_samples = host->status.lost_samples;
    to->services = host->services;
    to->n_services = host->service_count;
}

static bool add_host(struct sonde_arena *arena, const struct controller *controller,
                     const struct host *host, int64_t now_ms, Sonde__V1__ListHostsResponse *list) {
    struct loss lost[MAX_LOSSES] = {{.count = 0}};
    Sonde__V1__FleetHost *to = sonde_arena_alloc(arena, sizeof *to);
    if (!to)
        return false;
    sonde__v1__fleet_host__init(to);
    fill_host(to, host, now_ms);
    host_losses(host, lost);
    to->controller = text(sharing_owner(controller, host));
    list->hosts[list->n_hosts++] = to;
    return put_labels(arena, host, to) &&
           put_losses(arena, lost, &to->lost_windows, &to->n_lost_windows);
}

static bool is_wanted(const struct host *host, const char *name, bool only_in_trouble) {
    if (name[0] && strcmp(host->name, name) != 0)
        return false;
    return !only_in_trouble || !host_is_well(host);
}

static sonde_err list_hosts(struct controller *controller, const char *name, bool only_in_trouble,
                            struct sonde_arena *arena, Sonde__V1__ListHostsResponse *list) {
    int64_t now_ms = now_monotonic_ms();
    list->hosts = sonde_arena_alloc(arena, (controller->host_count + 1) * sizeof *list->hosts);
    bool is_good = list->hosts != NULL;
    for (size_t i = 0; i < controller->host_count && is_good; i++)
        if (is_wanted(controller->hosts[i], name, only_in_trouble))
            is_good = add_host(arena, controller, controller->hosts[i], now_ms, list);
    return is_good ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

sonde_err fleet_list(struct controller *controller, const char *name, bool only_in_trouble,
                     void (*take)(void *context, const Sonde__V1__ListHostsResponse *hosts),
                     void *context, struct sonde_diag *diag) {
    struct sonde_arena arena = {0};
    Sonde__V1__ListHostsResponse list = SONDE__V1__LIST_HOSTS_RESPONSE__INIT;
    sonde_err err = SONDE_OK;
    lock(controller);
    if (name[0] && !host_find(controller, name))
        err = sonde_fail(diag, SONDE_NOT_FOUND,
                         "no host is called \"%.100s\"; `sonde fleet hosts` lists them", name);
    if (!err)
        err = list_hosts(controller, name, only_in_trouble, &arena, &list);
    if (!err)
        take(context, &list);
    unlock(controller);
    sonde_arena_finish(&arena);
    return err;
}

/* ---- The kill switch ---- */

sonde_err fleet_pause(struct controller *controller, bool is_paused, const char *reason,
                      const char *who, struct sonde_diag *diag) {
    lock(controller);
    sonde_err err = pause_set(controller->pause, is_paused, reason, diag);
    log_line(controller, "audit: SetPaused(%s) by %.100s: %s", is_paused ? "true" : "false", who,
             err ? sonde_diag_text(diag, err) : "done");
    if (!err)
        controller_watch_pause(controller);
    unlock(controller);
    return err;
}
