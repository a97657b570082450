/* SPDX-License-Identifier: Apache-2.0 */
#include "service/programs/local_history.h"

#include "service/export/export.h"
#include "service/programs/late_store.h"
#include "service/programs/store_threads/maintenance.h"
#include "service/recording/recording.h"
#include "service/store/open.h"
#include "service/store/selector/selector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct local_history {
    struct store *store;
    struct recording *recording;
    struct maintenance *maintenance;
    struct watching *watching;
    char dir[3072];
};

static void complain(const struct local_history_options *options, const char *what,
                     const char *text) {
    char line[512];
    snprintf(line, sizeof line, "nothing is %s: %.400s", what, text);
    options->log(line);
}

/* A store that cannot be opened now may be later. */
static sonde_err open_store(struct local_history *history,
                            const struct local_history_options *options, struct sonde_diag *diag) {
    char name[sizeof history->dir + 16];
    struct store_limits limits = {.max_bytes = options->settings->mib << 20};
    int len = snprintf(history->dir, sizeof history->dir, "%s/history", options->data_dir);
    if (len < 0 || (size_t)len >= sizeof history->dir)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "data-dir: the path is too long");
    snprintf(name, sizeof name, "sqlite:%s", history->dir);
    keep_rules_limit(&options->settings->keep, &limits);
    sonde_err err = store_open(name, &limits, &history->store, diag);
    if (!err || err == SONDE_INVALID_ARGUMENT || err == SONDE_OUT_OF_MEMORY)
        return err;
    history->store = late_store_create(name, &limits, sonde_diag_text(diag, err), options->log);
    return history->store ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

static void send_record(void *exporter, const struct record *record) {
    if (!record->is_outside)
        export_record(exporter, record);
}

static sonde_err start(struct local_history *history, const struct local_history_options *options,
                       struct engine *engine, struct sonde_diag *diag) {
    const struct recording_options recording = {
        .engine = engine,
        .store = history->store,
        .frequency_hz = (uint32_t)options->settings->hz,
        .off_cpu_ms = (uint32_t)options->settings->off_cpu_ms,
        .off_cpu_of = options->settings->off_cpu_of,
        .machine = history->store && !options->settings->guests_only,
        .functions = options->functions,
        .log = options->log,
        .on_record = options->exporter ? send_record : NULL,
        .context = options->exporter,
    };
    sonde_err err = SONDE_OK;
    if (history->store)
        err = maintenance_start(history->store, MAINTENANCE_S, options->log, &history->maintenance,
                                diag);
    return err ? err : recording_start(&recording, &history->recording, diag);
}

/* Without it, history is recorded nevertheless. */
static void start_watching(struct local_history *history,
                           const struct local_history_options *options) {
    struct sonde_diag diag = {0};
    char line[512];
    if (!history->store)
        return;
    sonde_err err = watching_start(&options->settings->watch, history->store, options->log,
                                   &history->watching, &diag);
    if (!err)
        return;
    snprintf(line, sizeof line, "changes are not looked for: %.400s", sonde_diag_text(&diag, err));
    options->log(line);
}

sonde_err local_history_settings_read(struct local_history_settings *settings, bool has_store,
                                      struct sonde_diag *diag) {
    sonde_err err = watching_check(&settings->watch, has_store, diag);
    if (!err)
        err = keep_rules_read("history-keep", &settings->keep_texts, LOCAL_HISTORY_KEEP_S,
                              &settings->keep, diag);
    if (err || !settings->off_cpu)
        return err;
    if (settings->off_cpu_ms == 0)
        settings->off_cpu_ms = LOCAL_HISTORY_OFF_CPU_MS;
    return keep_selector_read("history-off-cpu", settings->off_cpu, &settings->off_cpu_of, diag);
}

void local_history_settings_finish(struct local_history_settings *settings) {
    keep_rules_finish(&settings->keep);
    selector_destroy(settings->off_cpu_of);
    settings->off_cpu_of = NULL;
}

struct local_history *local_history_open(const struct local_history_options *options,
                                         struct engine *engine) {
    struct local_history *history = calloc(1, sizeof *history);
    struct sonde_diag diag = {0};
    sonde_err err = history ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (!err && options->stores)
        err = open_store(history, options, &diag);
    if (err)
        complain(options, options->exporter ? "stored" : "recorded", sonde_diag_text(&diag, err));
    if (!history || (err && !options->exporter)) {
        free(history);
        return NULL;
    }
    err = start(history, options, engine, &diag);
    start_watching(history, options);
    if (!err)
        return history;
    /* What was recorded earlier can still be queried. */
    complain(options, "recorded", sonde_diag_text(&diag, err));
    recording_finish(history->recording);
    return history;
}

struct watching *local_history_watching(const struct local_history *history) {
    return history ? history->watching : NULL;
}

struct store *local_history_store(const struct local_history *history) {
    return history ? history->store : NULL;
}

void local_history_info(void *context, struct rpc_recorder_state *info) {
    struct local_history *history = context;
    struct recording_state state = {0};
    if (history->recording)
        recording_state(history->recording, &state);
    info->targets = state.targets;
    info->guests = state.guests;
    info->since_unix_ns = state.since_unix_ns;
    info->lost_windows = state.lost_windows;
    info->waits_left_out = state.waits_left_out;
    memcpy(info->trouble, state.trouble, sizeof info->trouble);
    memcpy(info->refusal, state.refusal, sizeof info->refusal);
}

void local_history_refresh(void *context) {
    struct local_history *history = context;
    if (history->recording)
        recording_refresh(history->recording);
}

void local_history_finish(struct local_history *history) {
    if (history)
        recording_finish(history->recording);
}

void local_history_close(struct local_history *history) {
    if (!history)
        return;
    recording_destroy(history->recording);
    watching_stop(history->watching);
    maintenance_stop(history->maintenance);
    store_close(history->store);
    free(history);
}
