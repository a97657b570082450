/* SPDX-License-Identifier: Apache-2.0
 *
 * A small gRPC server for programs on the clients' side: sonde-collect, which answers operators and
 * takes hosts that register, and simulated hosts in tests. Methods are rows of a table.
 *
 * Who may call: unix sockets are guarded by their permissions (0600). Over TCP a client needs a
 * token with the method's scope if there are tokens, or else a certificate, or else `is_open`.
 *
 * All callbacks run in server_run. Thread safety: server_run, create and destroy on one thread;
 * what sends, reads or ends a call from any thread, until its on_end has run. */
#ifndef SONDE_CLIENTS_C_SERVER_SERVER_H
#define SONDE_CLIENTS_C_SERVER_SERVER_H

#include "api/error.h"
#include "api/os/secrets/tokens.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

#define SERVER_MAX_ADDRESSES 8
#define SERVER_MAX_CALLS     20000      /* running; more are refused: UNAVAILABLE */
#define SERVER_MAX_REQUEST   (4u << 20) /* bytes of one message */

struct server;
struct server_call;
struct tls_files;
struct token_file;

struct server_method {
    const char *path; /* "/sonde.v1.Controller/GetFleet" */
    const ProtobufCMessageDescriptor *request;
    enum sonde_scope scope; /* that a token needs */
    /* The first request. May set the call's state. */
    void (*on_start)(void *context, struct server_call *call, const ProtobufCMessage *message);
    /* The callbacks below are for methods with streams, and run only if on_start has set a
     * state. */
    /* A later request; the next is read after server_next. NULL: there are no more. */
    void (*on_message)(void *state, const ProtobufCMessage *message);
    void (*on_sent)(void *state); /* the message has left */
    /* The call is over, and is freed. Always the last. */
    void (*on_end)(void *state);
};

struct server_options {
    const struct server_method *methods;
    size_t method_count;
    void *context;                /* for on_start */
    const char *const *addresses; /* unix:PATH or HOST:PORT; port 0 = the kernel chooses */
    size_t address_count;         /* 1 to SERVER_MAX_ADDRESSES */
    struct token_file *tokens;    /* NULL = none; it must outlive the server */
    struct tls_files *tls;        /* NULL = none, the same; on TCP addresses */
    bool asks_client;             /* clients need a certificate of the CA of tls */
    bool is_open;                 /* over TCP anybody may call, for tests */
};

/* SONDE_INVALID_ARGUMENT (an address, a file), SONDE_PERMISSION_DENIED (a TCP address without
 * tokens, client certificates or is_open), SONDE_IO (an address that is in use),
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err server_create(const struct server_options *options, struct server **server,
                                       struct sonde_diag *diag);
/* In the form that was given, with the port. NULL past the last. */
const char *server_address(const struct server *server, size_t index);
/* Runs what has happened; waits at most wait_ms for the first event. */
void server_run(struct server *server, int wait_ms);
/* Ends all calls; their on_end run. NULL is fine. */
void server_destroy(struct server *server);

void server_call_set(struct server_call *call, void *state);
/* What the client asked for, "127.0.0.1:20180". */
const char *server_call_authority(const struct server_call *call);
/* Who calls, for logs: "ipv4:10.0.0.7:4711". */
const char *server_call_peer(const struct server_call *call);
/* One message is in flight at a time: the next after on_sent. The message is packed before this
 * returns. */
void server_send(struct server_call *call, const ProtobufCMessage *message);
/* Reads the next request. Once after on_start and after each on_message. */
void server_next(struct server_call *call);
/* Ends the call after the message in flight. */
void server_finish(struct server_call *call, sonde_err err, const char *text);
/* Ends the call now, also if its client does not read. */
void server_cancel(struct server_call *call);
/* The answer of a method without streams, and the call's end. */
void server_reply(struct server_call *call, const ProtobufCMessage *message);

#endif
