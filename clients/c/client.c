/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates and destroys the client, and runs its thread, which takes tags from the completion queue
 * and runs their handlers in call.c. */
#include "clients/c/client_state.h"

#include "bazel/shims/grpc_core/abseil.h"
#include "bazel/shims/grpc_core/tsan.h"

#include <grpc/support/log.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define READY_STEP_MS 5

/* gRPC's own log is dropped: callers get each error as a status. */
static void on_core_log(gpr_log_func_args *args) {
    (void)args;
}

static void *run(void *context) {
    struct client *client = context;
    for (;;) {
        grpc_event event =
            grpc_completion_queue_next(client->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        if (event.type == GRPC_QUEUE_SHUTDOWN)
            return NULL;
        struct client_tag *tag = event.tag;
        core_tag_came(tag);
        tag->run(tag, event.success != 0);
    }
}

static sonde_err start(struct client *client, const struct client_options *options,
                       struct sonde_diag *diag) {
    if (options->token && !(client->token = strdup(options->token)))
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the client");
    sonde_err err = client_channel_create(options, &client->channel, diag);
    if (err)
        return err;
    client->queue = grpc_completion_queue_create_for_next(NULL);
    int error = pthread_create(&client->thread, NULL, run, client);
    if (error) {
        grpc_completion_queue_shutdown(client->queue);
        run(client);
        grpc_completion_queue_destroy(client->queue);
        client->queue = NULL;
        return sonde_fail_os(diag, error, "the client's thread cannot be started");
    }
    return SONDE_OK;
}

/* Signals are blocked meanwhile, so that gRPC's threads and ours inherit the mask. */
sonde_err client_create(const struct client_options *options, struct client **out,
                        struct sonde_diag *diag) {
    struct client *client = calloc(1, sizeof *client);
    sigset_t all, before;
    if (!client)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the client");
    client->post = options->post;
    client->post_context = options->post_context;
    pthread_mutex_init(&client->lock, NULL);
    pthread_cond_init(&client->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    core_skip_lock_checks();
    grpc_init();
    gpr_set_log_function(on_core_log);
    sonde_err err = start(client, options, diag);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err)
        client_destroy(client);
    else
        *out = client;
    return err;
}

void client_deliver(struct client *client, struct client_event *event, bool *is_posted) {
    pthread_mutex_lock(&client->lock);
    bool is_late = client->is_closing;
    if (is_late) {
        event->next = client->late;
        client->late = event;
        pthread_cond_signal(&client->changed);
    } else {
        *is_posted = true;
        client->posted_count++;
    }
    pthread_mutex_unlock(&client->lock);
    if (is_late)
        return;
    if (client->post)
        client->post(client->post_context, event);
    else
        client_event_run(event);
}

void client_event_run(struct client_event *event) {
    event->run(event);
}

void client_delivered(struct client *client, bool *is_posted) {
    pthread_mutex_lock(&client->lock);
    client->posted_count -= *is_posted;
    *is_posted = false;
    pthread_mutex_unlock(&client->lock);
}

/* Cancels the calls and runs their events here. A call has at most one event outstanding, so the
 * order of events does not matter. */
static void run_late(struct client *client) {
    pthread_mutex_lock(&client->lock);
    client->is_closing = true;
    client_calls_cancel(client);
    while (client->late || client->call_count > client->posted_count) {
        struct client_event *event = client->late;
        if (!event) {
            pthread_cond_wait(&client->changed, &client->lock);
            continue;
        }
        client->late = event->next;
        pthread_mutex_unlock(&client->lock);
        client_event_run(event);
        pthread_mutex_lock(&client->lock);
    }
    pthread_mutex_unlock(&client->lock);
}

void client_destroy(struct client *client) {
    if (!client)
        return;
    if (client->queue) {
        run_late(client);
        grpc_completion_queue_shutdown(client->queue);
        pthread_join(client->thread, NULL);
        grpc_completion_queue_destroy(client->queue);
    }
    if (client->channel)
        grpc_channel_destroy(client->channel);
    if (client->token)
        explicit_bzero(client->token, strlen(client->token));
    free(client->token);
    pthread_cond_destroy(&client->changed);
    pthread_mutex_destroy(&client->lock);
    grpc_shutdown();
    free(client);
}

bool client_wait_ready(struct client *client, uint32_t timeout_ms) {
    const struct timespec step = {0, READY_STEP_MS * 1000000};
    for (uint32_t waited = 0;; waited += READY_STEP_MS) {
        if (grpc_channel_check_connectivity_state(client->channel, 1) == GRPC_CHANNEL_READY)
            return true;
        if (waited >= timeout_ms)
            return false;
        nanosleep(&step, NULL);
    }
}
