/* SPDX-License-Identifier: Apache-2.0
 *
 * A server and the parts of its handlers: saved captures, history, names of users. */
#include "service/rpc/server.h"

#include "api/base/clock.h"
#include "service/rpc/core/server_state.h"
#include "service/rpc/history/history.h"
#include "service/rpc/method_table.h"
#include "service/rpc/saved/saved_captures.h"
#include "service/rpc/targets/user_names.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEFAULT_CAPTURES      64
#define DEFAULT_CAPTURE_BYTES (256ull << 20)

/* "/var/lib/sonde" for "/var/lib/sonde/captures"; NULL if there is none. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash && slash > path ? strndup(path, (size_t)(slash - path)) : NULL;
}

static void take_options(struct rpc_server *server, const struct rpc_server_options *options) {
    server->engine = options->engine;
    server->functions = options->functions;
    server->collect = options->collect;
    server->token_everywhere = options->token_everywhere;
    server->separates_users = options->separates_users;
    server->is_open = !options->token_file && (options->insecure || options->client_ca_file);
    server->client_names = options->client_names;
    server->client_name_count = options->client_name_count;
    server->redact_command_line = options->redact_command_line;
    server->history_end = options->history_end;
    server->spool_dir = options->captures_dir ? folder_of(options->captures_dir) : NULL;
    server->log = options->log;
    server->log_switch = options->log_switch;
    server->log_context = options->log_context;
    server->report = options->report;
    server->export_info = options->export_info;
    server->export_context = options->export_context;
}

static sonde_err start(struct rpc_server *server, const struct rpc_server_options *options,
                       struct sonde_diag *diag) {
    const struct saved_captures_options saved = {
        options->captures_dir, options->captures ? options->captures : DEFAULT_CAPTURES,
        options->capture_bytes ? options->capture_bytes : DEFAULT_CAPTURE_BYTES};
    server->saved = saved_captures_open(&saved);
    server->user_names = calloc(1, sizeof *server->user_names);
    if (!server->saved || !server->user_names)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    if (options->history) {
        sonde_err err = rpc_history_create(options, &server->history, diag);
        if (err)
            return err;
    }
    return rpc_serve(server, options, diag);
}

/* gRPC's threads and ours inherit the mask of signals: only the main thread handles signals. */
sonde_err rpc_server_create(const struct rpc_server_options *options, struct rpc_server **out,
                            struct sonde_diag *diag) {
    struct rpc_server *server = calloc(1, sizeof *server);
    sigset_t all, before;
    if (!server)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    server->start_unix_ns = clock_ns(CLOCK_REALTIME);
    server->methods = rpc_methods;
    server->method_count = rpc_method_count;
    take_options(server, options);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    sonde_err err = start(server, options, diag);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        rpc_server_destroy(server);
    else
        *out = server;
    return err;
}

const char *rpc_server_address(const struct rpc_server *server, size_t index) {
    return index < server->listeners.count ? server->listeners.items[index].address : NULL;
}

void rpc_server_stop(struct rpc_server *server, unsigned grace_ms) {
    rpc_serve_stop(server, grace_ms);
}

/* The workers of history post to the loop until they have ended. */
void rpc_server_destroy(struct rpc_server *server) {
    if (!server)
        return;
    rpc_serve_close(server);
    rpc_history_destroy(server->history);
    rpc_serve_finish(server);
    saved_captures_close(server->saved);
    free(server->user_names);
    free(server->spool_dir);
    free(server);
}
