/* SPDX-License-Identifier: Apache-2.0 */
#include "bazel/shims/grpc_core/abseil.h"
#include "bazel/shims/grpc_core/tsan.h"
#include "clients/c/server/server_state.h"

#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <signal.h>
#include <stdlib.h>

#define MAX_EVENTS 1000 /* that one server_run runs */

/* gRPC's own log is dropped: callers get each error as a status. */
static void on_core_log(gpr_log_func_args *args) {
    (void)args;
}

/* Pings find clients that are gone without a word, behind a NAT for example. */
static grpc_server *create_core(void) {
    const struct {
        const char *key;
        int value;
    } settings[] = {
        {GRPC_ARG_ALLOW_REUSEPORT, 0},
        {GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, SERVER_MAX_REQUEST},
        {GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0}, /* api/rpc/message.h */
        {GRPC_ARG_KEEPALIVE_TIME_MS, 30000},
        {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10000},
        {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
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

static sonde_err start(struct server *server, struct sonde_diag *diag) {
    server->queue = grpc_completion_queue_create_for_next(NULL);
    server->core = create_core();
    grpc_server_register_completion_queue(server->core, server->queue, NULL);
    sonde_err err = server_listen(server, &server->options, diag);
    if (err)
        return err;
    grpc_server_start(server->core);
    server->has_started = true;
    server_accept(server);
    return SONDE_OK;
}

/* Signals are blocked meanwhile, so that gRPC's threads inherit the mask. */
sonde_err server_create(const struct server_options *options, struct server **created,
                        struct sonde_diag *diag) {
    struct server *server = calloc(1, sizeof *server);
    sigset_t all, before;
    *created = NULL;
    if (!server)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the server");
    server->options = *options;
    pthread_mutex_init(&server->lock, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    core_skip_lock_checks();
    grpc_init();
    gpr_set_log_function(on_core_log);
    sonde_err err = start(server, diag);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        server_destroy(server);
    else
        *created = server;
    return err;
}

const char *server_address(const struct server *server, size_t index) {
    return index < server->address_count ? server->addresses[index] : NULL;
}

static gpr_timespec after(int wait_ms) {
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(wait_ms, GPR_TIMESPAN));
}

void server_run(struct server *server, int wait_ms) {
    for (int i = 0; i < MAX_EVENTS; i++) {
        grpc_event event =
            grpc_completion_queue_next(server->queue, after(i == 0 ? wait_ms : 0), NULL);
        if (event.type != GRPC_OP_COMPLETE)
            return;
        core_tag_came(event.tag);
        server_run_tag(server, event.tag, event.success != 0);
    }
}

/* After the shutdown's own event no call is left. */
static void shut_down(struct server *server) {
    struct tag last = {NULL, TAG_KINDS};
    core_tag_sent(&last);
    grpc_server_shutdown_and_notify(server->core, server->queue, &last);
    grpc_server_cancel_all_calls(server->core);
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(server->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return;
        core_tag_came(event.tag);
        if (event.tag == &last)
            grpc_completion_queue_shutdown(server->queue);
        else
            server_run_tag(server, event.tag, event.success != 0);
    }
}

void server_destroy(struct server *server) {
    if (!server)
        return;
    if (server->core)
        shut_down(server);
    if (server->core)
        grpc_server_destroy(server->core);
    if (server->queue)
        grpc_completion_queue_destroy(server->queue);
    server_remove_sockets(server);
    grpc_shutdown();
    pthread_mutex_destroy(&server->lock);
    free(server);
}
