/* SPDX-License-Identifier: Apache-2.0
 *
 * Start and shutdown of a server's loop. Shutdown happens in this order: refuse new calls and end
 * the endless ones (on the loop), wait until gRPC has no calls left, wait for the engine's last
 * events, close the queue, join the thread. Only then is everything freed. */
#include "bazel/shims/grpc_core/abseil.h"
#include "bazel/shims/grpc_core/tsan.h"
#include "service/rpc/core/server_state.h"
#include "service/store/store.h"

#include <grpc/support/log.h>
#include <stdatomic.h>
#include <stdio.h>

#define MIN_TOKEN 16
/* Above this limit gRPC makes clients wait instead of refusing them, so it is larger than
 * RPC_MAX_CALLS. */
#define MAX_STREAMS_PER_CONNECTION (2 * RPC_MAX_CALLS)

/* Logs only errors, one line each. */
static void on_core_log(gpr_log_func_args *args) {
    if (args->severity >= GPR_LOG_SEVERITY_ERROR)
        fprintf(stderr, "grpc: %s\n", args->message);
}

static grpc_server *create_core(void) {
    const struct {
        const char *key;
        int value;
    } settings[] = {
        {GRPC_ARG_ALLOW_REUSEPORT, 0},
        {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, RPC_MAX_REQUEST_BYTES},
        {GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0}, /* api/rpc/message.h */
        {GRPC_ARG_MAX_CONCURRENT_STREAMS, MAX_STREAMS_PER_CONNECTION},
        {GRPC_ARG_KEEPALIVE_TIME_MS, 30000},
        {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000},
        {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
        /* Never punish pings: gRPC would record an error for each one, and a flood of them would
         * cost seconds of this thread and 70 MB. A client that does not read its answers is not
         * read from either. */
        {GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0},
        {GRPC_ARG_ENABLE_CHANNELZ, 0},
    };
    grpc_arg args[sizeof settings / sizeof settings[0]];
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        args[i] = (grpc_arg){.type = GRPC_ARG_INTEGER,
                             .key = (char *)settings[i].key,
                             .value.integer = settings[i].value};
    grpc_channel_args all = {sizeof args / sizeof args[0], args};
    return grpc_server_create(&all, NULL);
}

static void *run_loop(void *context) {
    struct rpc_server *server = context;
    rpc_accept_start(server);
    loop_run(server->loop);
    return NULL;
}

static sonde_err start_thread(struct rpc_server *server, struct sonde_diag *diag) {
    grpc_server_start(server->core);
    int error = pthread_create(&server->thread, NULL, run_loop, server);
    if (error)
        return sonde_fail_os(diag, error, "cannot start the service's thread");
    server->thread_runs = true;
    pthread_setname_np(server->thread, "sonde-rpc");
    return SONDE_OK;
}

static sonde_err start(struct rpc_server *server, const struct rpc_server_options *options,
                       struct sonde_diag *diag) {
    server->core = create_core();
    grpc_server_register_completion_queue(server->core, loop_queue(server->loop), NULL);
    sonde_err err = rpc_accept_register(server, diag);
    if (!err && options->token_file)
        err = token_file_create(options->token_file, MIN_TOKEN, options->report, &server->tokens,
                                diag);
    if (!err)
        err = rpc_tls_open(options, &server->tls, diag);
    if (!err)
        err = rpc_listen(&server->listeners, server->core, options, server->tls, diag);
    return err ? err : start_thread(server, diag);
}

sonde_err rpc_serve(struct rpc_server *server, const struct rpc_server_options *options,
                    struct sonde_diag *diag) {
    gpr_set_log_function(on_core_log);
    core_skip_lock_checks();
    grpc_init();
    sonde_err err = loop_create(&server->loop, diag);
    if (!err)
        return start(server, options, diag);
    grpc_shutdown();
    return err;
}

static void close_when_empty(struct rpc_server *server) {
    if (!server->core_is_down || server->calls || server->loop_is_closed)
        return;
    server->loop_is_closed = true;
    loop_timer_clear(server->loop, &server->grace_timer);
    rpc_audit_finish(server);
    loop_close(server->loop);
}

void rpc_server_call_gone(struct rpc_server *server) {
    server->call_count--;
    close_when_empty(server);
}

static void on_down(struct loop_tag *tag, bool ok) {
    struct rpc_server *server = container_of(tag, struct rpc_server, down_tag);
    (void)ok;
    server->core_is_down = true;
    close_when_empty(server);
}

/* A call ends when its work on the store does. */
static void cancel_calls(struct rpc_server *server) {
    if (server->history_end)
        atomic_store(&server->history_end->is_stopped, true);
    grpc_server_cancel_all_calls(server->core);
}

static void on_grace_over(struct loop_timer *timer) {
    cancel_calls(container_of(timer, struct rpc_server, grace_timer));
}

static void begin_shutdown(struct rpc_server *server) {
    server->stopping = true;
    server->down_tag.run = on_down;
    core_tag_sent(&server->down_tag);
    grpc_server_shutdown_and_notify(server->core, loop_queue(server->loop), &server->down_tag);
}

static void on_stop(struct loop_message *message) {
    struct rpc_server *server = container_of(message, struct rpc_server, stop_message);
    begin_shutdown(server);
    for (struct rpc_call *call = server->calls, *next; call; call = next) {
        next = rpc_call_next(call);
        rpc_call_stop(call);
    }
    server->grace_timer.run = on_grace_over;
    if (server->grace_ms == 0)
        cancel_calls(server);
    else
        loop_timer_set(server->loop, &server->grace_timer, server->grace_ms);
}

void rpc_serve_stop(struct rpc_server *server, unsigned grace_ms) {
    if (!server->thread_runs)
        return;
    server->grace_ms = grace_ms;
    server->stop_message.run = on_stop;
    loop_post(server->loop, &server->stop_message);
    pthread_join(server->thread, NULL);
    server->thread_runs = false;
}

/* If creation failed there is no thread, so shutdown runs here. */
static void stop_unstarted(struct rpc_server *server) {
    if (server->core_is_down)
        return;
    if (server->core) {
        begin_shutdown(server);
        grpc_server_cancel_all_calls(server->core);
    } else {
        server->core_is_down = true;
        close_when_empty(server);
    }
    loop_run(server->loop);
}

void rpc_serve_close(struct rpc_server *server) {
    if (!server->loop)
        return;
    rpc_serve_stop(server, 0);
    stop_unstarted(server);
    if (server->core)
        grpc_server_destroy(server->core);
    rpc_listeners_finish(&server->listeners);
}

void rpc_serve_finish(struct rpc_server *server) {
    if (!server->loop)
        return;
    loop_destroy(server->loop);
    rpc_accept_finish(server);
    token_file_destroy(server->tokens);
    tls_files_destroy(server->tls);
    grpc_shutdown();
}
