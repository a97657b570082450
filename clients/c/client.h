/* SPDX-License-Identifier: Apache-2.0
 *
 * The C client of sonde.v1.Profiler: what the gateway and `sonde` use.
 *
 * A client owns one channel and one thread that waits for its answers. Calls are asynchronous:
 * every event of a call is handed to the caller's `post` function, which carries it to the caller's
 * own loop (or runs it at once); there the caller calls client_event_run(event), which calls the
 * callbacks below and frees the event. So callbacks run where the caller wants them, one at a time
 * per call, and nothing here needs a lock of the caller. Messages are the protobuf-c structs of
 * proto/sonde/v1/profiler.pb-c.h, valid during the callback.
 *
 * The channel connects with the first call and reconnects by itself, at most a second late. Two
 * clients are two connections. Backpressure: a stream's next message is read only after
 * client_call_next. */
#ifndef SONDE_CLIENTS_C_CLIENT_H
#define SONDE_CLIENTS_C_CLIENT_H

#include "api/bytes.h"
#include "api/error.h"

#include <protobuf-c/protobuf-c.h>

#define CLIENT_MAX_MESSAGE_BYTES (32u << 20) /* of an answer */

struct client;
struct client_call;

/* From the client's thread. `next` and `data` are the poster's to use until client_event_run; the
 * rest is the client's. */
struct client_event {
    struct client_event *next;
    void *data[4];
    void (*run)(struct client_event *event);
    bool stays; /* on the client's thread */
};
typedef void client_post(void *context, struct client_event *event);

struct client_options {
    const char *address;                        /* unix:PATH or HOST:PORT */
    const char *token;                          /* "authorization: Bearer ..."; NULL = none */
    const char *ca_file, *cert_file, *key_file; /* TLS when ca_file is set; PEM */
    client_post *post;                          /* NULL: events run on the client's thread */
    void *post_context;
    void (*posted)(void *context); /* after one post or several; may be NULL */
    /* Unary calls go together over one stream (Exchange) where the service knows it, which makes
     * each of them several times cheaper when many run. They leave with client_flush. */
    bool gathers;
};

/* Does not connect yet. SONDE_INVALID_ARGUMENT (address, files), SONDE_IO. */
SONDE_MUST_USE sonde_err client_create(const struct client_options *options, struct client **client,
                                       struct sonde_diag *diag);
/* Cancels what runs: every call that is left gets its on_end, on the calling thread. Then joins the
 * client's thread. Events that were posted and never run lose their calls' memory, nothing else.
 * Not from a callback. NULL is fine. */
void client_destroy(struct client *client);

/* Waits until the service is connected, at most timeout_ms: true when it is. For programs that have
 * just started it. Any thread but a callback's. */
bool client_wait_ready(struct client *client, uint32_t timeout_ms);

void client_event_run(struct client_event *event);

/* For a client that gathers: what was started since leaves now, in one message, or, if one is under
 * way, when that has left. Any thread. */
void client_flush(struct client *client);

/* One row per method; methods.c is written from profiler.proto. */
struct client_method {
    const char *path; /* "/sonde.v1.Profiler/CaptureCpu" */
    const ProtobufCMessageDescriptor *request, *response;
    bool streaming; /* many answers */
    bool sends;     /* many requests: client_call_send */
};
extern const struct client_method client_get_info, client_list_targets, client_watch_targets,
    client_capture_cpu, client_stream_cpu, client_start_cpu, client_stop_cpu, client_symbolize,
    client_symbolize_stream, client_upload_debug_file, client_list_symbol_files,
    client_evict_symbols, client_get_command_line, client_heap_status, client_heap_activate,
    client_heap_deactivate, client_heap_reset, client_heap_snapshot, client_list_heap_dumps,
    client_get_heap_dump, client_get_heap_gdump, client_set_heap_gdump, client_capture_allocs,
    client_start_allocs, client_stop_allocs, client_list_captures, client_get_capture,
    client_diff_captures, client_get_backtraces, client_exchange;
/* All of them, for tables and tests. */
extern const struct client_method *const client_methods[];
extern const size_t client_method_count;

/* The bytes of a CaptureEvent that is nothing but a chunk, where they were received: one after the
 * other, the pieces. */
struct client_chunk {
    size_t len, count;
    const struct sonde_slice *pieces;
};
#define CLIENT_MAX_PIECES 256
/* NULL is fine. Any thread; also after the call and the client have gone. */
void client_chunk_destroy(struct client_chunk *chunk);

struct client_callbacks {
    /* One answer. For a streaming method return true to have the next one read at once, false to
     * call client_call_next later. */
    bool (*on_message)(void *context, struct client_call *call, const ProtobufCMessage *message);
    /* Always, exactly once, the last callback; the call is freed after it. err from "sonde-reason"
     * or the gRPC status. */
    void (*on_end)(void *context, sonde_err err, const struct sonde_diag *diag);
    /* Takes a chunk, uncopied, instead of on_message, whose answer it gives. Chunks that are not
     * encoded in the plain way come to on_message, as all do when this is NULL. */
    bool (*on_chunk)(void *context, struct client_call *call, struct client_chunk *chunk);
};

/* deadline_ms 0 = none. token NULL = the client's own (the gateway passes on what it was sent);
 * "" = none. The request is packed before the call returns. NULL when out of memory. Any thread. */
struct client_call *client_call_start(struct client *client, const struct client_method *method,
                                      const ProtobufCMessage *request, uint32_t deadline_ms,
                                      const char *token, const struct client_callbacks *callbacks,
                                      void *context);
/* For methods that send: on_sent says that the request before has left, so the next one, or the
 * end, may be sent, now or later. */
struct client_call *
client_call_start_sending(struct client *client, const struct client_method *method,
                          const ProtobufCMessage *first, uint32_t deadline_ms, const char *token,
                          const struct client_callbacks *callbacks,
                          void (*on_sent)(void *context, struct client_call *call), void *context);
/* The next of many requests; NULL: there are no more. Once after each on_sent; packed before it
 * returns. Any thread, until on_end ran. */
void client_call_send(struct client_call *call, const ProtobufCMessage *request);
/* Once after each on_message that returned false. Any thread, until on_end ran. */
void client_call_next(struct client_call *call);
/* Any thread, until on_end ran; on_end(SONDE_CANCELLED) still comes. */
void client_call_cancel(struct client_call *call);

/* Blocking help for programs without a loop (needs post == NULL; not from a callback). *response is
 * freed with protobuf_c_message_free_unpacked. */
SONDE_MUST_USE sonde_err client_unary(struct client *client, const struct client_method *method,
                                      const ProtobufCMessage *request, uint32_t deadline_ms,
                                      ProtobufCMessage **response, struct sonde_diag *diag);

#endif
