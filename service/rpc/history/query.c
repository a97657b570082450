/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/history/query.h"

#include "service/engine/pool.h"
#include "service/rpc/core/server_state.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t history_query_ns(const struct history_query *query) {
    return monotonic_ns() - query->start_ns;
}

struct rpc_history *history_of(struct rpc_call *call) {
    struct rpc_history *history = rpc_call_server(call)->history;
    struct sonde_diag diag = {0};
    if (!history)
        rpc_finish(call,
                   sonde_fail(&diag, SONDE_NOT_AVAILABLE,
                              "this service keeps no history: start sonded with --history"),
                   &diag);
    return history;
}

sonde_err history_query_add(struct history_query *query, const ProtobufCMessage *message) {
    if (query->message_count == query->message_capacity) {
        size_t capacity = query->message_capacity * 2 + 1;
        grpc_slice *grown = realloc(query->messages, capacity * sizeof *grown);
        if (!grown)
            return SONDE_OUT_OF_MEMORY;
        query->messages = grown;
        query->message_capacity = capacity;
    }
    query->messages[query->message_count++] = rpc_pack(message);
    return SONDE_OK;
}

static void send_next(struct rpc_call *call) {
    struct history_query *query = rpc_call_state(call);
    if (rpc_call_sending(call) || rpc_call_finished(call) || !query->is_done)
        return;
    if (query->err)
        rpc_finish(call, query->err, &query->diag);
    else if (query->sent < query->message_count)
        rpc_send_slice(call, query->messages[query->sent++]); /* which takes it */
    else if (rpc_chunks_has_next(&query->chunks))
        rpc_chunks_send(&query->chunks, call);
    else
        rpc_finish(call, SONDE_OK, NULL);
}

static void on_done(struct loop_message *message) {
    struct history_query *query = container_of(message, struct history_query, done);
    struct rpc_call *call = query->call;
    query->is_done = true;
    rpc_chunks_take(&query->chunks, &query->document);
    send_next(call);
    rpc_call_drop(call);
}

/* A query whose client went away while it waited is not begun. */
static void run(struct engine_work *work) {
    struct history_query *query = container_of(work, struct history_query, work);
    struct loop *loop = rpc_call_server(query->call)->loop;
    query->start_ns = monotonic_ns();
    query->document.limit = RPC_MAX_RESULT_BYTES;
    query->err = store_stop_check(&query->stop, &query->diag);
    if (!query->err)
        query->err = query->run(query, &query->diag);
    sonde_arena_finish(&query->arena);
    query->done.run = on_done;
    loop_post(loop, &query->done);
}

static void on_gone(struct rpc_call *call) {
    struct history_query *query = rpc_call_state(call);
    atomic_store(&query->stop.is_stopped, true);
}

static void release(struct rpc_call *call) {
    struct history_query *query = rpc_call_state(call);
    for (size_t i = query->sent; i < query->message_count; i++)
        grpc_slice_unref(query->messages[i]);
    free(query->messages);
    sonde_buf_finish(&query->document);
    rpc_chunks_finish(&query->chunks);
    free(query);
}

static struct history_query *create(struct rpc_call *call, struct rpc_history *history,
                                    const ProtobufCMessage *request, history_run *wanted) {
    static const struct rpc_call_events events = {send_next, on_gone, NULL, release};
    struct history_query *query = calloc(1, sizeof *query);
    if (!query)
        return NULL;
    query->call = call;
    query->history = history;
    query->request = request;
    query->run = wanted;
    query->work.run = run;
    query->stop.deadline_ns = monotonic_ns() + HISTORY_QUERY_S * 1000000000ull;
    rpc_call_set(call, &events, query);
    return query;
}

void history_query_start(struct rpc_call *call, const ProtobufCMessage *request,
                         history_run *wanted) {
    struct rpc_history *history = history_of(call);
    struct sonde_diag diag = {0};
    if (!history)
        return;
    struct history_query *query = create(call, history, request, wanted);
    if (!query) {
        rpc_finish(call, SONDE_OUT_OF_MEMORY, NULL);
        return;
    }
    if (rpc_call_siblings(call, false) > HISTORY_QUERIES_OF_CALLER) {
        rpc_finish(call,
                   sonde_fail(&diag, SONDE_TOO_MANY_CAPTURES,
                              "%u queries of history of this caller are running and waiting, which "
                              "is the limit for one: try again later",
                              HISTORY_QUERIES_OF_CALLER),
                   &diag);
        return;
    }
    rpc_call_take(call); /* dropped in on_done */
    if (pool_submit(history->queries, &query->work))
        return;
    rpc_finish(call,
               sonde_fail(&diag, SONDE_TOO_MANY_CAPTURES,
                          "%d queries of history are running and %d are waiting, which is the "
                          "limit: try again later",
                          HISTORY_QUERIES, HISTORY_QUERIES_WAITING),
               &diag);
    rpc_call_drop(call);
}
