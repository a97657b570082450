/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations that the client's files share. */
#ifndef SONDE_CLIENTS_C_CLIENT_STATE_H
#define SONDE_CLIENTS_C_CLIENT_STATE_H

#include "api/base/container_of.h"
#include "api/rpc/client/channel.h"
#include "clients/c/client.h"

#include <grpc/grpc.h>
#include <pthread.h>

struct client {
    struct rpc_channels *channels;
    struct token_file *token_file; /* NULL = none */
    struct client_loop *loop;
    bool owns_loop;
    char *token;
    /* Guards the fields below. client_destroy locks it before a call's lock; a call that is being
     * started locks the two in the other order, before client_destroy can find it in the list. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct client_call *calls;
    size_t call_count, posted_count; /* posted: the poster has the call's event */
    bool is_closing;
    struct client_event *late; /* while closing: events for the closing thread, newest first */
};

/* The tag of a batch; embedded in the call. */
struct client_tag {
    void (*run)(struct client_tag *tag, bool ok);
};

/* loop.c. */
grpc_completion_queue *client_loop_queue(struct client_loop *loop);
bool client_loop_posts(const struct client_loop *loop); /* whether it has a post function */
/* Posts the event, or runs it if there is no post function. */
void client_loop_hand_over(struct client_loop *loop, struct client_event *event);

/* channel.c: checks the address and makes client->channels. */
SONDE_MUST_USE sonde_err client_channels_open(struct client *client,
                                              const struct client_options *options,
                                              struct sonde_diag *diag);

/* metadata.c: the token and the caller, whose values the call unrefs. Returns their number. */
#define CLIENT_MAX_METADATA 3
size_t client_metadata(struct client *client, const struct client_caller *caller,
                       grpc_metadata metadata[CLIENT_MAX_METADATA]);

/* received_slice.c: takes the bytes if the message holds a chunk and nothing else; otherwise NULL.
 */
struct client_chunk *client_chunk_take(const struct client_method *method,
                                       grpc_byte_buffer **bytes);

/* call.c: cancels every call, for client_destroy, which holds the client's lock. */
void client_calls_cancel(struct client *client);

/* client.c: passes a call's event to the poster. *is_posted, guarded by the client's lock, says
 * whether the poster has it. */
void client_deliver(struct client *client, struct client_event *event, bool *is_posted);
/* The event is being run: the poster no longer has it. */
void client_delivered(struct client *client, bool *is_posted);

#endif
