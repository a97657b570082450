/* SPDX-License-Identifier: Apache-2.0
 *
 * One RPC, from its arrival to its status, as a method's handler sees it.
 *
 * A call lives while something holds a reference to it: each batch in flight, and each reference
 * that the handler took with rpc_call_take (for an engine event that is still to come, or a job on
 * a worker). The handler answers with rpc_reply, or with any number of rpc_send and one rpc_finish.
 * After that, or after the client has gone, sends do nothing, so handlers need not check before
 * they send.
 *
 * Backpressure: one message is in flight at a time, and `on_sent` reports that it has left. A
 * handler buffers only a bounded amount in between. Thread safety: the loop's thread only. */
#ifndef SONDE_SERVICE_RPC_CORE_CALL_H
#define SONDE_SERVICE_RPC_CORE_CALL_H

#include "api/bytes.h"
#include "service/engine/engine.h"
#include "service/rpc/base/loop.h"

#include <protobuf-c/protobuf-c.h>

struct rpc_call;
struct rpc_server;

enum rpc_kind {
    RPC_UNARY,
    RPC_STREAM,
    RPC_BIDI,          /* each request message gets one or more answers */
    RPC_CLIENT_STREAM, /* one answer to many messages */
    RPC_DUPLEX, /* messages and answers are independent; answers are compressed, for Collect */
};
enum rpc_scope { RPC_SCOPE_NONE = 0, RPC_SCOPE_READ = 1, RPC_SCOPE_CONTROL = 2 };

/* Calls of a method that changes state are audited (audit.h). */
enum rpc_effect { RPC_EFFECT_NONE, RPC_EFFECT_STATE };

/* What a method does for a caller who may only see and control their own processes. */
enum rpc_reach {
    RPC_REACH_SHARED,   /* refused: it is about what all users share */
    RPC_REACH_SAVED,    /* refused: a saved capture may show processes of any user */
    RPC_REACH_TARGET,   /* the request's target must be one of theirs */
    RPC_REACH_FILTERED, /* the handler asks rpc_call_shows, or shows nobody's data */
};

/* One row of the method table. `start` gets the decoded request. RPC_BIDI calls it for every
 * message, the next one after the answer has left; RPC_CLIENT_STREAM and RPC_DUPLEX call it for
 * every message, the next one after rpc_receive. */
struct rpc_method {
    const char *path; /* "/sonde.v1.Profiler/GetInfo" */
    enum rpc_kind kind;
    enum rpc_scope scope;
    enum rpc_effect effect;
    enum rpc_reach reach;
    const ProtobufCMessageDescriptor *request;
    void (*start)(struct rpc_call *call, const ProtobufCMessage *request);
};

static inline bool rpc_has_many_requests(const struct rpc_method *method) {
    return method->kind == RPC_BIDI || method->kind == RPC_CLIENT_STREAM ||
           method->kind == RPC_DUPLEX;
}

/* Any may be NULL. */
struct rpc_call_events {
    void (*on_sent)(struct rpc_call *call); /* the message has left; another may be sent */
    void (*on_gone)(struct rpc_call *call); /* cancelled or past its deadline: stop the work */
    void (*on_stop)(struct rpc_call *call); /* the service is stopping: end an endless call */
    void (*release)(struct rpc_call *call); /* the last event: free the state */
};

extern const struct rpc_call_events rpc_no_events;

/* The handler's events and state. */
void rpc_call_set(struct rpc_call *call, const struct rpc_call_events *events, void *state);
/* For methods with many requests: calls on_closed when the client sends no more messages. A client
 * that has vanished looks the same at first (on_gone comes later), so the last message must mark
 * itself. Without an on_closed the call ends. */
void rpc_call_on_closed(struct rpc_call *call, void (*on_closed)(struct rpc_call *call));
void *rpc_call_state(const struct rpc_call *call);
/* Whether the handler has set these events, and so whose state the call has. */
bool rpc_call_has(const struct rpc_call *call, const struct rpc_call_events *events);
struct rpc_server *rpc_call_server(const struct rpc_call *call);
/* Whether the caller may see the target. Other local users see only their own processes, and all
 * guests of a sonded that serves one user. */
bool rpc_call_shows(const struct rpc_call *call, const struct engine_target *target);
/* Whether the call is made for another local user, limited or not. */
bool rpc_call_is_for_other(const struct rpc_call *call);
/* Whether the caller is such a user. */
bool rpc_call_is_limited(const struct rpc_call *call);
/* Whether sonded's own user or root calls for themselves, without a token, over a unix socket or
 * loopback. */
bool rpc_call_is_own_user(const struct rpc_call *call);
/* The user whose processes this call may reach; NULL = all users'. Valid as long as the call. */
const uid_t *rpc_call_owner(const struct rpc_call *call);
/* The running calls of this call's caller, with this one: those with the same events, or all. A
 * caller is an address, a token and, of a gateway, a user. Loop thread. */
uint32_t rpc_call_siblings(const struct rpc_call *call, bool of_any_kind);
/* RPC_CLIENT_STREAM, RPC_DUPLEX: the message has been handled; receives the next one. */
void rpc_receive(struct rpc_call *call);
/* Memory that lives as long as the call (with many requests: until the next message). */
struct sonde_arena *rpc_call_arena(struct rpc_call *call);
void rpc_call_take(struct rpc_call *call);
void rpc_call_drop(struct rpc_call *call); /* may free it */

/* The client's deadline on the monotonic clock; 0 = none. */
uint64_t rpc_call_deadline_ns(const struct rpc_call *call);

/* Whether a message is in flight, so that the next one must wait for on_sent; and whether the call
 * is over, so that nothing more can be sent. */
bool rpc_call_sending(const struct rpc_call *call);
bool rpc_call_finished(const struct rpc_call *call);

/* Appends to the call's log line: " samples=12". */
void rpc_call_note(struct rpc_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A unary answer: the message, then status OK. */
void rpc_reply(struct rpc_call *call, const ProtobufCMessage *message);
void rpc_reply_slice(struct rpc_call *call, grpc_slice slice); /* takes slice */
/* One message of a stream. Not while rpc_call_sending. */
void rpc_send(struct rpc_call *call, const ProtobufCMessage *message);
void rpc_send_slice(struct rpc_call *call, grpc_slice slice); /* takes slice */
/* The same from several slices; takes the slices but not the array. */
void rpc_send_slices(struct rpc_call *call, grpc_slice *slices, size_t count);
/* Ends the call with a status once the message in flight has left. diag may be NULL. */
void rpc_finish(struct rpc_call *call, sonde_err err, const struct sonde_diag *diag);

/* The message, packed into a new slice. Any thread. */
grpc_slice rpc_pack(const ProtobufCMessage *message);

/* A call's work on one of the engine's workers: `run` runs there, then `on_done` on the loop. The
 * caller takes a reference to the call before and drops it in or after on_done. */
struct rpc_job {
    struct rpc_call *call;
    void (*run)(struct rpc_job *job);
    void (*on_done)(struct rpc_job *job);
    struct engine_work work;
    struct loop_message done;
};
void rpc_job_start(struct rpc_job *job);
/* The same on other workers: the caller submits this work. */
struct engine_work *rpc_job_work(struct rpc_job *job);

#endif
