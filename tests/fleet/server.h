/* SPDX-License-Identifier: Apache-2.0
 *
 * A gRPC server with one method, for simulated hosts: both sides stream. It takes anybody, on
 * 0.0.0.0. All callbacks run in server_run.
 *
 * Thread safety: one thread. */
#ifndef SONDE_TESTS_FLEET_SERVER_H
#define SONDE_TESTS_FLEET_SERVER_H

#include "api/error.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

struct server;
struct server_call;

struct server_method {
    const char *path; /* "/sonde.v1.Profiler/Collect" */
    const ProtobufCMessageDescriptor *request;
    /* The first request. Sets the call's state. */
    void (*on_start)(void *context, struct server_call *call, const ProtobufCMessage *message);
    /* A later one; the next is read after server_next. NULL: there are no more. */
    void (*on_message)(void *state, const ProtobufCMessage *message);
    void (*on_sent)(void *state); /* the message has left */
    /* The call is over, and is freed. Once, if on_start was called. */
    void (*on_end)(void *state);
};

/* Aborts when something fails. */
struct server *server_create(const struct server_method *method, void *context);
int server_port(const struct server *server);
/* Runs what has happened; waits at most wait_ms for the first event. */
void server_run(struct server *server, int wait_ms);
/* Ends all calls. */
void server_destroy(struct server *server);

void server_call_set(struct server_call *call, void *state);
/* What the client asked for, "127.0.0.1:20180". */
const char *server_call_authority(const struct server_call *call);
/* One message is in flight at a time: the next after on_sent. */
void server_send(struct server_call *call, const ProtobufCMessage *message);
void server_next(struct server_call *call);
/* Ends the call after the message in flight. */
void server_finish(struct server_call *call, sonde_err err, const char *text);

#endif
