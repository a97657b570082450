/* SPDX-License-Identifier: Apache-2.0
 *
 * What the client's files share. */
#ifndef SONDE_CLIENTS_C_INSIDE_H
#define SONDE_CLIENTS_C_INSIDE_H

#include "clients/c/client.h"

#include <grpc/grpc.h>
#include <pthread.h>

struct client {
    grpc_channel *channel;
    grpc_completion_queue *queue;
    pthread_t thread;
    client_post *post;
    void *post_context;
    char *token;
    pthread_mutex_t lock; /* guards what follows; taken before a call's */
    pthread_cond_t changed;
    struct client_call *calls;
    size_t call_count, posted_count; /* calls, and those of them whose event the poster has */
    bool is_closing;
    struct client_event *late; /* while closing: events for the closing thread, newest first */
};

/* What a batch carries; embedded in the call. */
struct client_tag {
    void (*run)(struct client_tag *tag, bool ok);
};

/* channel.c. The caller unrefs it with grpc_channel_destroy. */
SONDE_MUST_USE sonde_err client_channel_create(const struct client_options *options,
                                               grpc_channel **channel, struct sonde_diag *diag);

/* lend.c: takes the bytes when they are a message with nothing but a chunk; otherwise NULL. */
struct client_chunk *client_chunk_take(const struct client_method *method,
                                       grpc_byte_buffer **bytes);

/* call.c: for client_destroy. Under the lock. */
void client_calls_cancel(struct client *client);

/* client.c: hands a call's one event on; *is_posted, guarded by the client's lock, says whether the
 * poster has it. */
void client_deliver(struct client *client, struct client_event *event, bool *is_posted);
/* The event is being run: it is nobody's any more. */
void client_delivered(struct client *client, bool *is_posted);

#define client_owner(pointer, type, member) \
    ((type *)(void *)((char *)(pointer) - __builtin_offsetof(type, member)))

#endif
