/* SPDX-License-Identifier: Apache-2.0
 *
 * One call from its arrival to its status: what a method's handler sees.
 *
 * The call is alive while something refers to it: each batch under way, and whatever the handler
 * took with rpc_call_take (an engine's event to come, a job on a worker). The handler answers with
 * rpc_reply, or with any number of rpc_send and one rpc_finish; after that, or once the client went
 * away, further sends do nothing, so a late event needs no check.
 *
 * Backpressure: one message is under way at a time. `on_sent` says that it left; a handler holds
 * at most a bounded amount meanwhile. Thread safety: the loop's thread only. */
#ifndef SONDE_SERVICE_RPC_CORE_CALL_H
#define SONDE_SERVICE_RPC_CORE_CALL_H

#include "api/bytes.h"
#include "service/engine/engine.h"
#include "service/rpc/core/loop.h"

#include <protobuf-c/protobuf-c.h>

struct rpc_call;
struct rpc_server;

enum rpc_kind {
    RPC_UNARY,
    RPC_STREAM,
    RPC_BIDI,          /* an answer, of one or more messages, to each message */
    RPC_CLIENT_STREAM, /* one answer to many messages */
};
enum rpc_scope { RPC_SCOPE_NONE = 0, RPC_SCOPE_READ = 1, RPC_SCOPE_CONTROL = 2 };

/* One row per method. start gets the decoded request (NULL type checks are its own business); for
 * RPC_BIDI it is called for every message, the next one after its answer has left; for
 * RPC_CLIENT_STREAM too, the next one after rpc_receive. */
struct rpc_method {
    const char *path; /* "/sonde.v1.Profiler/GetInfo" */
    enum rpc_kind kind;
    enum rpc_scope scope;
    const ProtobufCMessageDescriptor *request;
    void (*start)(struct rpc_call *call, const ProtobufCMessage *request);
};

static inline bool rpc_has_many_requests(const struct rpc_method *method) {
    return method->kind == RPC_BIDI || method->kind == RPC_CLIENT_STREAM;
}

/* Any may be NULL. */
struct rpc_call_events {
    void (*on_sent)(struct rpc_call *call); /* the message left; the next may be sent */
    void (*on_gone)(struct rpc_call *call); /* client gone or deadline over: stop the work */
    void (*on_stop)(struct rpc_call *call); /* the service stops: end what would never end */
    void (*release)(struct rpc_call *call); /* last: free the state; a last note */
};

extern const struct rpc_call_events rpc_no_events;

/* The handler's own. */
void rpc_call_set(struct rpc_call *call, const struct rpc_call_events *events, void *state);
/* For methods with many requests: no message comes any more. The client may have vanished, which
 * on_gone tells later: a message must say itself that it is the last. Without it the call ends. */
void rpc_call_on_closed(struct rpc_call *call, void (*on_closed)(struct rpc_call *call));
void *rpc_call_state(const struct rpc_call *call);
struct rpc_server *rpc_call_server(const struct rpc_call *call);
/* RPC_CLIENT_STREAM: the message is dealt with, the next one may come. */
void rpc_receive(struct rpc_call *call);
/* Memory until the call is freed (of methods with many requests: until the next message). */
struct sonde_arena *rpc_call_arena(struct rpc_call *call);
void rpc_call_take(struct rpc_call *call);
void rpc_call_drop(struct rpc_call *call); /* may free it */

/* When the client gives up, on the monotonic clock; 0 = it said nothing. */
uint64_t rpc_call_deadline_ns(const struct rpc_call *call);

/* Whether the next message must wait for on_sent; and whether nothing more can be sent at all. */
bool rpc_call_sending(const struct rpc_call *call);
bool rpc_call_finished(const struct rpc_call *call);

/* A fact for the log line: " samples=12". */
void rpc_call_note(struct rpc_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* message with status OK: a unary answer. */
void rpc_reply(struct rpc_call *call, const ProtobufCMessage *message);
void rpc_reply_slice(struct rpc_call *call, grpc_slice slice); /* takes slice */
/* One message of a stream; not while rpc_call_sending. */
void rpc_send(struct rpc_call *call, const ProtobufCMessage *message);
void rpc_send_slice(struct rpc_call *call, grpc_slice slice); /* takes slice */
/* The same in several pieces; takes them, not the array. */
void rpc_send_slices(struct rpc_call *call, grpc_slice *slices, size_t count);
/* The status, after a message under way has left. diag may be NULL. */
void rpc_finish(struct rpc_call *call, sonde_err err, const struct sonde_diag *diag);

/* Any thread: a message packed into a slice of its own. */
grpc_slice rpc_pack(const ProtobufCMessage *message);

/* Work of a call on a worker: run there, then on_done on the loop. The caller has taken a reference
 * for it and drops it in or after on_done. */
struct rpc_job {
    struct rpc_call *call;
    void (*run)(struct rpc_job *job);
    void (*on_done)(struct rpc_job *job);
    struct engine_work work;
    struct loop_message done;
};
void rpc_job_start(struct rpc_job *job);

#endif
