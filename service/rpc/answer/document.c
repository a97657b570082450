/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/answer/document.h"

#include "api/base/array.h"
#include "service/rpc/core/server_state.h"

#include <stdlib.h>

void rpc_document_init(struct rpc_document *document, struct rpc_call *call,
                       const struct rpc_document_events *events) {
    *document =
        (struct rpc_document){.call = call, .events = events, .bytes.limit = RPC_MAX_RESULT_BYTES};
    rpc_spool_init(&document->spool, rpc_call_server(call)->spool_dir, RPC_MAX_RESULT_BYTES);
}

void rpc_document_finish(struct rpc_document *document) {
    for (size_t i = document->messages_sent; i < document->message_count; i++)
        grpc_slice_unref(document->messages[i]);
    free(document->messages);
    sonde_buf_finish(&document->bytes);
    rpc_chunks_finish(&document->chunks);
    rpc_spool_finish(&document->spool);
}

/* ---- Drawing ---- */

static void draw(struct rpc_job *job) {
    struct rpc_document *document = container_of(job, struct rpc_document, job);
    document->events->draw(document);
    sonde_err err = rpc_spool_end(&document->spool, &document->bytes, &document->diag);
    if (err)
        document->err = err;
}

static void on_done(struct rpc_job *job) {
    struct rpc_document *document = container_of(job, struct rpc_document, job);
    if (document->events->on_drawn)
        document->events->on_drawn(document);
    rpc_document_complete(document);
    rpc_call_drop(job->call);
}

static void begin(struct rpc_document *document) {
    document->job = (struct rpc_job){.call = document->call, .run = draw, .on_done = on_done};
    rpc_call_take(document->call); /* dropped in on_done */
}

void rpc_document_start(struct rpc_document *document) {
    begin(document);
    rpc_job_start(&document->job);
}

struct engine_work *rpc_document_work(struct rpc_document *document) {
    begin(document);
    return rpc_job_work(&document->job);
}

/* ---- Messages ---- */

sonde_err rpc_document_add(struct rpc_document *document, const ProtobufCMessage *message) {
    if (!array_room(&document->messages, &document->message_capacity, document->message_count, 1))
        return SONDE_OUT_OF_MEMORY;
    document->messages[document->message_count++] = rpc_pack(message);
    return SONDE_OK;
}

sonde_err rpc_document_add_start(struct rpc_document *document, Sonde__V1__ResultStart *start) {
    Sonde__V1__CaptureEvent event = SONDE__V1__CAPTURE_EVENT__INIT;
    start->size_bytes = document->spool.len ? document->spool.len : document->bytes.len;
    event.event_case = SONDE__V1__CAPTURE_EVENT__EVENT_RESULT;
    event.result = start;
    return rpc_document_add(document, &event.base);
}

/* ---- Sending ---- */

static void describe(struct rpc_document *document) {
    Sonde__V1__ResultStart start = SONDE__V1__RESULT_START__INIT;
    document->events->describe(document, &start);
    document->err = rpc_document_add_start(document, &start);
    rpc_call_note(document->call, " bytes=%llu", (unsigned long long)start.size_bytes);
}

static void send_from_spool(struct rpc_document *document) {
    sonde_err err = rpc_spool_send(&document->spool, document->call, &document->diag);
    if (err)
        rpc_finish(document->call, err, &document->diag);
}

/* Sends the next message unless one is in flight. */
void rpc_document_on_sent(struct rpc_call *call) {
    struct rpc_document *document = rpc_call_state(call);
    if (rpc_call_sending(call) || rpc_call_finished(call) || !document->is_complete)
        return;
    if (document->err)
        rpc_finish(call, document->err, &document->diag);
    else if (document->messages_sent < document->message_count)
        rpc_send_slice(call, document->messages[document->messages_sent++]); /* which takes it */
    else if (rpc_chunks_has_next(&document->chunks))
        rpc_chunks_send(&document->chunks, call);
    else if (rpc_spool_has_next(&document->spool))
        send_from_spool(document);
    else
        rpc_finish(call, SONDE_OK, NULL);
}

void rpc_document_complete(struct rpc_document *document) {
    document->is_complete = true;
    if (!document->err && document->events->describe && !rpc_call_finished(document->call))
        describe(document);
    rpc_chunks_take(&document->chunks, &document->bytes);
    rpc_document_on_sent(document->call);
}
