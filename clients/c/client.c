/* SPDX-License-Identifier: Apache-2.0
 *
 * Creates and destroys the client. */
#include "clients/c/client_state.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define READY_STEP_MS 5

/* The client's thread, or one that it shares. */
static sonde_err choose_loop(struct client *client, const struct client_options *options,
                             struct sonde_diag *diag) {
    client->loop = options->loop;
    client->owns_loop = !options->loop;
    return options->loop
               ? SONDE_OK
               : client_loop_create(options->post, options->post_context, &client->loop, diag);
}

/* Signals are blocked meanwhile, so that gRPC's threads and ours inherit the mask. */
sonde_err client_create(const struct client_options *options, struct client **out,
                        struct sonde_diag *diag) {
    struct client *client = calloc(1, sizeof *client);
    sigset_t all, before;
    if (!client || (options->token && !(client->token = strdup(options->token)))) {
        free(client);
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "no memory for the client");
    }
    client->token_file = options->token_file;
    pthread_mutex_init(&client->lock, NULL);
    pthread_cond_init(&client->changed, NULL);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    grpc_init();
    sonde_err err = choose_loop(client, options, diag);
    if (!err)
        err = client_channels_open(client, options, diag);
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
    client_loop_hand_over(client->loop, event);
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
 * order of events does not matter. Events that the poster has may never be run; without a poster
 * they are running on the loop's thread. */
static void run_late(struct client *client) {
    bool has_poster = client_loop_posts(client->loop);
    pthread_mutex_lock(&client->lock);
    client->is_closing = true;
    client_calls_cancel(client);
    while (client->late || client->call_count > (has_poster ? client->posted_count : 0)) {
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
    if (client->loop)
        run_late(client);
    if (client->owns_loop)
        client_loop_destroy(client->loop);
    rpc_channels_destroy(client->channels);
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
    struct rpc_channel *channel = rpc_channels_take(client->channels);
    bool is_ready = false;
    for (uint32_t waited = 0; !is_ready && waited <= timeout_ms; waited += READY_STEP_MS) {
        is_ready = grpc_channel_check_connectivity_state(channel->core, 1) == GRPC_CHANNEL_READY;
        if (!is_ready)
            nanosleep(&step, NULL);
    }
    rpc_channels_drop(client->channels, channel);
    return is_ready;
}
