/* SPDX-License-Identifier: Apache-2.0
 *
 * What sonded and sonde-history do alike as programs: block signals, confine themselves, print
 * their addresses, wait for a signal and stop. Main thread only. */
#ifndef SONDE_SERVICE_PROGRAMS_SERVE_H
#define SONDE_SERVICE_PROGRAMS_SERVE_H

#include "api/settings/options.h"
#include "api/settings/settings_reload.h"
#include "service/rpc/server.h"

#include <signal.h>
#include <stdatomic.h>

#define SERVE_GRACE_MS 200 /* default of --grace-ms */

struct serve_options {
    const char *program;
    uint64_t grace_ms;
    /* For SIGHUP: the program's settings as they were before and after they were read. Those that
     * have changed since then need a restart, except `verbose`. */
    const struct settings_reload *reload;
    const void *defaults, *loaded;
    size_t settings_size;
    /* After the signal, while calls still run; NULL = nothing. */
    void (*before_stop)(void *context);
    void *context;
};

/* Call it before any other thread starts, so that only the main thread receives the signals. */
void serve_block_signals(sigset_t *awaited);
/* Confines the process, or prints why it runs unconfined; then prints the server's addresses, tells
 * the service manager, and returns when a signal arrives. SIGHUP reloads instead if the process has
 * no terminal. Starts the exit watchdog, calls before_stop and lets calls finish for grace_ms. */
void serve_until_signal(const struct serve_options *options, struct rpc_server *server,
                        const sigset_t *awaited);
/* For rpc_server_options.log: a line on stderr. */
void serve_log_line(void *context, const char *line);
/* For rpc_server_options.log_switch: whether --verbose is set at the moment. */
extern atomic_bool serve_is_verbose;
/* What --debuginfod lists, separated by blanks; "env" means DEBUGINFOD_URLS. The caller frees it.
 * NULL when out of memory. */
char *serve_debuginfod_urls(const struct sonde_option_list *list);

#endif
