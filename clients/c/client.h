/* SPDX-License-Identifier: Apache-2.0
 *
 * The C client of sonde.v1.Profiler, sonde.v1.History and sonde.v1.Controller. The gateway, `sonde`
 * and sonde-collect use it.
 *
 * A client owns one channel and one thread that takes events from gRPC's completion queue; clients
 * with the same client_loop share its thread. Calls are asynchronous. The client's thread passes
 * every event of a call to the caller's `post` function, which queues it for the caller's own loop
 * or runs it at once. The loop then calls client_event_run(event), which runs the callbacks below
 * and frees the event. So callbacks run on a thread of the caller's choice, one at a time per call,
 * and the caller needs no locks. Messages are the protobuf-c structs of proto/sonde/v1, valid
 * during the callback.
 *
 * The channel connects with the first call and reconnects by itself within a second. When its TLS
 * files or token file change, the next call uses the new contents, over a new connection; running
 * calls stay on theirs. Two clients use two connections. Backpressure: a stream's next message is
 * read only after client_call_next. */
#ifndef SONDE_CLIENTS_C_CLIENT_H
#define SONDE_CLIENTS_C_CLIENT_H

#include "api/bytes.h"
#include "api/error.h"

#include <protobuf-c/protobuf-c.h>
#include <sys/types.h>

#define CLIENT_MAX_MESSAGE_BYTES (32u << 20) /* largest answer */

struct client;
struct client_call;
struct client_loop;
struct tls_files;
struct token_file;

/* The poster may use `data` until it calls client_event_run; the rest belongs to the client. */
struct client_event {
    void *data[2];
    struct client_event *next;
    void (*run)(struct client_event *event);
};
typedef void client_post(void *context, struct client_event *event);

struct client_options {
    const char *address;                        /* unix:PATH or HOST:PORT */
    const char *token;                          /* "authorization: Bearer ..."; NULL = none */
    const char *ca_file, *cert_file, *key_file; /* TLS when ca_file is set; PEM */
    /* The same, shared with other clients, whom they must outlive: api/os/{tls_files,token_file}.h.
     * The file's first token is sent. */
    struct tls_files *tls;
    struct token_file *token_file;
    /* The name that the server's certificate must have. NULL = the address's host. */
    const char *server_name;
    struct client_loop *loop; /* NULL = a thread of its own, with the post below */
    client_post *post;        /* called on the client's thread; NULL: events run there */
    void *post_context;
    /* For thousands of clients in one process: smaller windows and buffers, more time for a peer
     * that does not answer. */
    bool is_lean;
};

/* One thread for many clients. post as above. It must outlive them. SONDE_OUT_OF_MEMORY,
 * SONDE_IO. */
SONDE_MUST_USE sonde_err client_loop_create(client_post *post, void *post_context,
                                            struct client_loop **loop, struct sonde_diag *diag);
void client_loop_destroy(struct client_loop *loop); /* NULL is fine */

/* Does not connect yet. SONDE_INVALID_ARGUMENT (address, files), SONDE_IO. */
SONDE_MUST_USE sonde_err client_create(const struct client_options *options, struct client **client,
                                       struct sonde_diag *diag);
/* Cancels the running calls: each gets its on_end on the calling thread. Then joins the client's
 * thread. An event that was posted but never run leaks its call's memory and nothing else. Must not
 * be called from a callback. NULL is fine. */
void client_destroy(struct client *client);

/* Waits at most timeout_ms for the connection; false if there is none by then. For programs that
 * have just started the service. Any thread, but not from a callback. */
bool client_wait_ready(struct client *client, uint32_t timeout_ms);

void client_event_run(struct client_event *event);

/* One row per method. A test compares the rows with the protos. */
struct client_method {
    const char *path; /* "/sonde.v1.Profiler/CaptureCpu" */
    const ProtobufCMessageDescriptor *request, *response;
    bool streaming; /* many answers */
    bool sends;     /* many requests: client_call_send */
};
/* client_get_info for GetInfo. */
#define PROFILER(method, name, ...) extern const struct client_method client_##name;
#define HISTORY                     PROFILER
#define CONTROLLER                  PROFILER
#include "proto/sonde/v1/methods.inc"
/* All methods, for tables and tests. */
extern const struct client_method *const client_methods[];
extern const size_t client_method_count;

/* The bytes of a CaptureEvent that holds only a chunk, uncopied, as the pieces in which they were
 * received. */
struct client_chunk {
    size_t len, count;
    const struct sonde_slice *pieces;
};
#define CLIENT_MAX_PIECES 256
/* NULL is fine. Any thread; also after the call and the client have gone. */
void client_chunk_destroy(struct client_chunk *chunk);

struct client_callbacks {
    /* One answer. A streaming method's callback returns true to read the next one at once, or false
     * to call client_call_next later. */
    bool (*on_message)(void *context, struct client_call *call, const ProtobufCMessage *message);
    /* Runs exactly once, as the last callback; the call is freed after it. err is derived from
     * "sonde-reason" or the gRPC status. */
    void (*on_end)(void *context, sonde_err err, const struct sonde_diag *diag);
    /* Takes ownership of a chunk, uncopied; returns what on_message would. A chunk in an unusual
     * encoding goes to on_message instead. NULL sends every chunk to on_message. */
    bool (*on_chunk)(void *context, struct client_call *call, struct client_chunk *chunk);
};

/* On whose behalf a call is made; the gateway passes on who sent the HTTP request. */
struct client_caller {
    const char *token; /* NULL = the client's own, "" = none */
    bool is_limited;   /* to what the user `uid` of this machine may see and control */
    uid_t uid;
    const char *name; /* for the service's audit, at most 160 bytes; NULL = the client itself */
};

/* Starts a call. deadline_ms 0 = none. caller NULL = the client itself. The request is packed
 * before this returns. Returns NULL if out of memory or while the client is being destroyed. Any
 * thread.
 *
 * on_sent is for methods with many requests; NULL = there is only one. It reports that the last
 * request has been sent; the next one, or the end, may be sent from then on. */
struct client_call *
client_call_start_sending(struct client *client, const struct client_method *method,
                          const ProtobufCMessage *first, uint32_t deadline_ms,
                          const struct client_caller *caller,
                          const struct client_callbacks *callbacks,
                          void (*on_sent)(void *context, struct client_call *call), void *context);
static inline struct client_call *
client_call_start(struct client *client, const struct client_method *method,
                  const ProtobufCMessage *request, uint32_t deadline_ms,
                  const struct client_caller *caller, const struct client_callbacks *callbacks,
                  void *context) {
    return client_call_start_sending(client, method, request, deadline_ms, caller, callbacks, NULL,
                                     context);
}

/* Sends the next request; NULL ends the requests. Call it once after each on_sent. The request is
 * packed before this returns. Any thread, until on_end has run. */
void client_call_send(struct client_call *call, const ProtobufCMessage *request);
/* Both with a request that is packed already. It is copied. */
struct client_call *
client_call_start_packed(struct client *client, const struct client_method *method,
                         struct sonde_slice first, const struct client_callbacks *callbacks,
                         void (*on_sent)(void *context, struct client_call *call), void *context);
void client_call_send_packed(struct client_call *call, struct sonde_slice request);
/* Reads the next answer. Call it once after each on_message that returned false. Any thread, until
 * on_end has run. */
void client_call_next(struct client_call *call);
/* Cancels the call; on_end(SONDE_CANCELLED) still follows. Any thread, until on_end has run. */
void client_call_cancel(struct client_call *call);

/* A unary call that blocks, for programs without a loop. Needs post == NULL; must not be called
 * from a callback. Free *response with protobuf_c_message_free_unpacked. */
SONDE_MUST_USE sonde_err client_unary(struct client *client, const struct client_method *method,
                                      const ProtobufCMessage *request, uint32_t deadline_ms,
                                      ProtobufCMessage **response, struct sonde_diag *diag);

#endif
