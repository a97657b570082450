/* SPDX-License-Identifier: Apache-2.0
 *
 * --watch and --watch-webhook of sonded and sonde-history: a watcher over their store
 * (service/watch/watcher.h). Thread safety: one thread, except watching_info. */
#ifndef SONDE_SERVICE_PROGRAMS_STORE_THREADS_WATCHING_H
#define SONDE_SERVICE_PROGRAMS_STORE_THREADS_WATCHING_H

#include "service/rpc/core/server_options.h"

#define WATCH_HELP         "look for functions whose cost changes, in what is recorded"
#define WATCH_WEBHOOK_HELP "URL that gets each change as JSON: http[s]://HOST[:PORT][/PATH]"

struct watching_settings {
    bool is_on;
    const char *webhook; /* NULL = none */
};

struct watching;

/* has_store: there is a history to look at. SONDE_INVALID_ARGUMENT. */
SONDE_MUST_USE sonde_err watching_check(const struct watching_settings *settings, bool has_store,
                                        struct sonde_diag *diag);
/* *watching is NULL if the settings do not ask for it, and after an error. The store must outlive
 * it. */
SONDE_MUST_USE sonde_err watching_start(const struct watching_settings *settings,
                                        struct store *store, void (*log)(const char *line),
                                        struct watching **watching, struct sonde_diag *diag);
/* context: a struct watching. Any thread. */
rpc_watch_info watching_info;
/* NULL is fine. */
void watching_stop(struct watching *watching);

#endif
