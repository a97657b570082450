/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/history/query.h"

#include "api/base/clock.h"
#include "service/engine/pool.h"
#include "service/rpc/core/server_state.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

uint64_t history_query_ns(const struct history_query *query) {
    return (uint64_t)clock_ns(CLOCK_MONOTONIC) - query->start_ns;
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

/* A query whose client went away while it waited is not begun. */
static void draw(struct rpc_document *document) {
    struct history_query *query = container_of(document, struct history_query, document);
    query->start_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC);
    document->err = store_stop_check(&query->stop, &document->diag);
    if (!document->err)
        document->err = query->run(query, &document->diag);
    sonde_arena_finish(&query->arena);
}

static void on_gone(struct rpc_call *call) {
    struct history_query *query = rpc_call_state(call);
    atomic_store(&query->stop.is_stopped, true);
}

static void release(struct rpc_call *call) {
    struct history_query *query = rpc_call_state(call);
    rpc_document_finish(&query->document);
    free(query);
}

static struct history_query *create(struct rpc_call *call, struct rpc_history *history,
                                    const ProtobufCMessage *request, history_run *wanted) {
    static const struct rpc_call_events events = {rpc_document_on_sent, on_gone, NULL, release};
    static const struct rpc_document_events document_events = {.draw = draw};
    struct history_query *query = calloc(1, sizeof *query);
    if (!query)
        return NULL;
    rpc_document_init(&query->document, call, &document_events);
    query->history = history;
    query->request = request;
    query->run = wanted;
    query->stop.deadline_ns = (uint64_t)clock_ns(CLOCK_MONOTONIC) + HISTORY_QUERY_S * 1000000000ull;
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
    if (pool_submit(history->queries, rpc_document_work(&query->document)))
        return;
    rpc_finish(call,
               sonde_fail(&diag, SONDE_TOO_MANY_CAPTURES,
                          "%d queries of history are running and %d are waiting, which is the "
                          "limit: try again later",
                          HISTORY_QUERIES, HISTORY_QUERIES_WAITING),
               &diag);
    rpc_call_drop(call);
}
