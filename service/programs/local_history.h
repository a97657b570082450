/* SPDX-License-Identifier: Apache-2.0
 *
 * sonded --history: a store in DATA_DIR/history, and a recording that fills it. With --otlp or
 * --pyroscope the recording also feeds the exporter, which does not need the store. A store that
 * cannot be opened is tried again (service/programs/late_store.h). If the recording cannot start,
 * there is one message, and the service works without it. Thread safety: one thread, except
 * local_history_info and local_history_refresh.
 */
#ifndef SONDE_SERVICE_PROGRAMS_LOCAL_HISTORY_H
#define SONDE_SERVICE_PROGRAMS_LOCAL_HISTORY_H

#include "service/engine/engine.h"
#include "service/programs/keep_text.h"
#include "service/programs/store_threads/watching.h"
#include "service/rpc/server.h"

#define LOCAL_HISTORY_KEEP_S     (7 * 86400u)
#define LOCAL_HISTORY_OFF_CPU_MS 50 /* with a selector */

struct local_history;

/* Options of sonded. The last two are what local_history_settings_read has read from the texts. */
struct local_history_settings {
    bool guests_only; /* no processes without a guest */
    uint64_t hz, mib, off_cpu_ms;
    const char *off_cpu; /* a selector of processes; NULL = those with a guest */
    struct sonde_option_list keep_texts;
    struct watching_settings watch;
    struct keep_rules keep;
    struct selector *off_cpu_of;
};
/* has_store: --history. SONDE_INVALID_ARGUMENT. Zeroed memory is fine for the other one. */
SONDE_MUST_USE sonde_err local_history_settings_read(struct local_history_settings *settings,
                                                     bool has_store, struct sonde_diag *diag);
void local_history_settings_finish(struct local_history_settings *settings);

struct local_history_options {
    const char *data_dir;
    bool stores;               /* otherwise the recording only feeds the exporter */
    struct exporter *exporter; /* NULL = nothing is sent; must outlive the history */
    const struct local_history_settings *settings; /* must outlive the history */
    struct function_times *functions;              /* as in recording.h */
    void (*log)(const char *line);
};

/* NULL if there is no history; log has said why. */
struct local_history *local_history_open(const struct local_history_options *options,
                                         struct engine *engine);
/* Valid until local_history_close. NULL for NULL, and without a store. */
struct store *local_history_store(const struct local_history *history);
/* For rpc_server_options.watch_context; NULL without --watch. */
struct watching *local_history_watching(const struct local_history *history);
/* context: the history. Any thread */
rpc_recorder_info local_history_info;
rpc_recorder_refresh local_history_refresh;
/* Stores the open windows. Before engine_destroy; NULL is fine. */
void local_history_finish(struct local_history *history);
/* After engine_destroy and rpc_server_destroy; NULL is fine. */
void local_history_close(struct local_history *history);

#endif
