/* SPDX-License-Identifier: Apache-2.0
 *
 * A relay ties one HTTP request to the RPC that answers it. It is the first member of its handler's
 * state. relay_create begins it; it ends by itself once the request has been answered or its client
 * has gone, and no call is running. If the client goes away its call is cancelled, so a handler's
 * callbacks only run while somebody waits for the answer. In the loop only. */
#ifndef SONDE_GATEWAY_REPLY_RELAY_H
#define SONDE_GATEWAY_REPLY_RELAY_H

#include "clients/c/client.h"
#include "gateway/gateway.h"
#include "gateway/reply/caller_name.h"
#include "proto/sonde/v1/profiler.pb-c.h"

struct relay;

struct relay_events {
    /* One message of the call. The next one of a stream is read after relay_pull. */
    void (*on_message)(struct relay *relay, const ProtobufCMessage *message);
    /* The call has ended, with or without an error; may start the next call, or answer. NULL:
     * errors are answered with relay_refuse, and on_message must have answered otherwise. */
    void (*on_end)(struct relay *relay, sonde_err err, const struct sonde_diag *diag);
    /* Frees what the state owns, but not the state. May be NULL. */
    void (*finish)(struct relay *relay);
};

struct relay {
    struct gateway *gateway;
    struct http_request *request; /* NULL once answered or gone */
    struct client_call *call;     /* NULL while none is running */
    const struct relay_events *events;
    void (*finish)(struct relay *relay);
    /* Takes a chunk of a result instead of on_message; NULL sends all to on_message. */
    void (*on_chunk)(struct relay *relay, struct client_chunk *chunk);
    enum family family;
    struct target_choice target;
    char *token; /* of the request; NULL = none */
    struct client_caller caller;
    char caller_name[CALLER_NAME_SIZE];
    /* Continuations of a call that another call depends on. */
    void (*on_found)(struct relay *relay), (*on_missing)(struct relay *relay);
    bool inside, pulled; /* a callback is running; it has called relay_pull */
    struct sonde_diag diag;
};

/* size is that of the zeroed state. Never NULL: the process ends when memory runs out. */
void *relay_create(const struct request_context *context, size_t size,
                   const struct relay_events *events);
/* deadline_ms 0 = none. */
void relay_call(struct relay *relay, const struct client_method *method,
                const ProtobufCMessage *request, uint32_t deadline_ms);
void relay_pull(struct relay *relay);
/* Returns the request, to be answered; the relay no longer has it. */
struct http_request *relay_take_request(struct relay *relay);
/* Answers with the error. If the request did not say which target, lists the targets. */
void relay_refuse(struct relay *relay, sonde_err err, const struct sonde_diag *diag);
/* Refuses a start because a session is running. `words` precedes the service's sentence (since
 * when, by whom), because clients search for them. */
void relay_refuse_busy(struct relay *relay, const char *words, const struct sonde_diag *diag);
/* "REST client ADDRESS", shown to the next client that tries to start a session. */
#define RELAY_OWNER_SIZE 64
const char *relay_owner(const struct request_context *context, char owner[RELAY_OWNER_SIZE]);
/* For relay_events.on_message: answers 200 with the message as JSON. */
void relay_answer_json(struct relay *relay, const ProtobufCMessage *message);
/* Frees the relay if request and call have both ended. Call it last in request callbacks such as
 * on_ready. */
void relay_settle(struct relay *relay);

/* The chosen target as a message, which borrows from the choice. */
Sonde__V1__TargetSelector relay_selector(const struct target_choice *target);

/* For HEAD and for answers that are the same for every target: asks the service whether the target
 * is attached; if so calls on_found, which answers. */
void relay_check_target(struct relay *relay, void (*on_found)(struct relay *relay));

#endif
