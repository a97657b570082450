/* SPDX-License-Identifier: Apache-2.0
 *
 * What the client's files share. */
#ifndef SONDE_CLIENTS_C_CLIENT_STATE_H
#define SONDE_CLIENTS_C_CLIENT_STATE_H

#include "clients/c/client.h"

#include <grpc/grpc.h>
#include <pthread.h>

struct client_gathering;

struct client {
    struct client_gathering *gathering; /* NULL = every call goes by itself */
    grpc_channel *channel;
    grpc_completion_queue *queue;
    pthread_t thread;
    client_post *post;
    void *post_context;
    void (*posted)(void *context);
    char *token;
    pthread_mutex_t lock; /* guards what follows; taken before a call's */
    pthread_cond_t changed;
    struct client_call *calls;
    size_t call_count, posted_count; /* calls, and those of them whose event the poster has */
    bool is_closing;
    struct client_event *late; /* while closing: events for the closing thread, newest first */
};

/* What every call begins with, whichever way it goes: a struct client_call points here. */
struct client_way {
    void (*cancel)(struct client_way *way);
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
/* A call whose events run on the client's own thread, not at the poster's. */
struct client_call *
client_call_start_here(struct client *client, const struct client_method *method,
                       const ProtobufCMessage *request, const struct client_callbacks *callbacks,
                       void (*on_sent)(void *context, struct client_call *call), void *context);
/* client_call_send, of a packed message; takes slice. */
void client_call_send_slice(struct client_call *call, grpc_slice slice);

/* gather.c. NULL when out of memory. */
struct client_gathering *client_gathering_create(struct client *client);
void client_gathering_destroy(struct client_gathering *gathering); /* after every call's end */
/* Client's thread: ends the calls whose time is over; when to look again, 0 = not at all. */
uint64_t client_gathering_expire(struct client_gathering *gathering);

/* client.c: a call more, or less; false while the client is being destroyed. */
bool client_count_call(struct client *client);
void client_uncount_call(struct client *client);
/* Hands a call's one event on; *is_posted, guarded by the client's lock, says whether the
 * poster has it. */
void client_deliver(struct client *client, struct client_event *event, bool *is_posted);
/* The same of several, and then once: */
void client_hand_on(struct client *client, struct client_event *event, bool *is_posted);
void client_posted(struct client *client);
/* The event is being run: it is nobody's any more. */
void client_delivered(struct client *client, bool *is_posted);

#define client_owner(pointer, type, member) \
    ((type *)(void *)((char *)(pointer) - __builtin_offsetof(type, member)))

#endif
