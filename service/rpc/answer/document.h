/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer that a worker draws and the loop sends as fast as the client reads: messages, then
 * bytes in chunks, then the status. It is the first member of the call's state.
 *
 *     loop     rpc_document_init, rpc_document_start
 *     worker   draw: fills in the bytes, or err and diag
 *     loop     on_drawn; describe: fills in the ResultStart, which is sent first
 *
 * Thread safety: one thread at a time, the loop's except where a comment names the worker. */
#ifndef SONDE_SERVICE_RPC_ANSWER_DOCUMENT_H
#define SONDE_SERVICE_RPC_ANSWER_DOCUMENT_H

#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/answer/chunk.h"
#include "service/rpc/answer/spool.h"

struct rpc_document;

struct rpc_document_events {
    void (*draw)(struct rpc_document *document); /* worker */
    /* After draw, even if it failed or the client has gone. May be NULL. */
    void (*on_drawn)(struct rpc_document *document);
    /* Before anything is sent. NULL: `draw` has added the messages. */
    void (*describe)(struct rpc_document *document, Sonde__V1__ResultStart *start);
};

struct rpc_document {
    struct rpc_call *call;
    sonde_err err; /* ends the call; nothing is sent */
    struct sonde_diag diag;
    struct sonde_buf bytes; /* limited to RPC_MAX_RESULT_BYTES */
    struct rpc_spool spool; /* what `draw` writes into its sink is sent before the bytes */
    /* The rest is document.c's. */
    const struct rpc_document_events *events;
    struct rpc_job job;
    grpc_slice *messages;
    size_t message_count, message_capacity, messages_sent;
    struct rpc_chunks chunks;
    bool is_complete;
};

/* The document must not move afterwards. */
void rpc_document_init(struct rpc_document *document, struct rpc_call *call,
                       const struct rpc_document_events *events);
void rpc_document_finish(struct rpc_document *document);

/* Draws on one of the engine's workers, then sends. */
void rpc_document_start(struct rpc_document *document);
/* The same on other workers: the caller submits this work. If they refuse it, drop the call. */
struct engine_work *rpc_document_work(struct rpc_document *document);
/* Sends err, or bytes that need no worker. */
void rpc_document_complete(struct rpc_document *document);

/* The call's event on_sent. */
void rpc_document_on_sent(struct rpc_call *call);

/* Worker: appends a message. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err rpc_document_add(struct rpc_document *document,
                                          const ProtobufCMessage *message);
/* The same with the ResultStart of the finished bytes, whose size it fills in. */
SONDE_MUST_USE sonde_err rpc_document_add_start(struct rpc_document *document,
                                                Sonde__V1__ResultStart *start);

#endif
