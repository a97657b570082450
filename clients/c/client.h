/* SPDX-License-Identifier: Apache-2.0
 *
 * The C client of sonde.v1.Profiler: what the gateway and `sonde` use.
 *
 * A client owns one channel and one thread that waits for its answers. Calls are asynchronous: every event of a call is handed
 * to the caller's `post` function, which carries it to the caller's own loop (or runs it at once); there the caller calls
 * client_event_run(event), which calls the callbacks below and frees the event. So callbacks run where the caller wants
 * them, one at a time per call, and nothing here needs a lock of the caller. Messages are the protobuf-c structs of
 * proto/sonde/v1/profiler.pb-c.h, valid during the callback.
 *
 * The channel reconnects by itself. Backpressure: a stream's next message is read only after client_call_next. */
#ifndef SONDE_CLIENTS_C_CLIENT_H
#define SONDE_CLIENTS_C_CLIENT_H

#include "api/bytes.h"
#include "api/error.h"

#include <protobuf-c/protobuf-c.h>

struct client;
struct client_call;
struct client_event;

/* From the client's thread. `next` and `data` are the poster's to use until client_event_run. */
struct client_event {
    struct client_event *next;
    void *data[4];
};
typedef void client_post(void *context, struct client_event *event);

struct client_options {
    const char *address; /* unix:PATH or HOST:PORT */
    const char *token;   /* sent as "authorization: Bearer ..." ; NULL = none */
    const char *ca_file, *cert_file, *key_file; /* TLS when ca_file is set; PEM */
    client_post *post;   /* NULL: events run on the client's thread */
    void *post_context;
};

SONDE_MUST_USE sonde_err client_create(const struct client_options *options, struct client **client,
                                       struct sonde_diag *diag);
/* Cancels what runs, joins the thread. Events already posted must have been run. */
void client_destroy(struct client *client);

void client_event_run(struct client_event *event);

/* One row per method; `client_methods` is written from profiler.proto. */
struct client_method {
    const char *path; /* "/sonde.v1.Profiler/CaptureCpu" */
    const ProtobufCMessageDescriptor *request, *response;
    bool streaming; /* many answers */
};
extern const struct client_method client_get_info, client_list_targets, client_watch_targets,
    client_capture_cpu, client_stream_cpu, client_start_cpu, client_stop_cpu, client_symbolize,
    client_get_command_line;

struct client_callbacks {
    /* One answer. For a streaming method return true to have the next one read at once, false to call client_call_next later.
     */ 
    bool (*on_message)(void *context, struct client_call *call, const ProtobufCMessage *message);
    /* Always, exactly once, the last callback; the call is freed after it. err from "sonde-reason" or the gRPC status. */
    void (*on_end)(void *context, sonde_err err, const struct sonde_diag *diag);
};

/* deadline_ms 0 = none. token NULL = the client's own (the gateway passes on what it was sent). The request is packed before the
 * call returns. NULL when out of memory. */
struct client_call *client_call_start(struct client *client, const struct client_method *method,
                                      const ProtobufCMessage *request, uint32_t deadline_ms,
                                      const char *token, const struct client_callbacks *callbacks,
                                      void *context);
void client_call_next(struct client_call *call);
/* Any thread, until on_end ran; on_end(SONDE_CANCELLED) still comes. */
void client_call_cancel(struct client_call *call);

/* Blocking help for programs without a loop (needs post == NULL). *response is freed with
 * protobuf_c_message_free_unpacked. */
SONDE_MUST_USE sonde_err client_unary(struct client *client, const struct client_method *method,
                                      const ProtobufCMessage *request, uint32_t deadline_ms,
                                      ProtobufCMessage **response, struct sonde_diag *diag);

#endif
