/* SPDX-License-Identifier: Apache-2.0
 *
 * One query: a worker runs it and packs its answer, which the loop then sends.
 *
 *     loop     a request arrives; history_query_start
 *     worker   run: read the request, ask the store, pack the messages
 *     loop     the messages, then the document in chunks, then the status
 *
 * If the client goes away or the time is over, `stop` says so, and the store gives up. */
#ifndef SONDE_SERVICE_RPC_HISTORY_QUERY_H
#define SONDE_SERVICE_RPC_HISTORY_QUERY_H

#include "service/rpc/answer/document.h"
#include "service/rpc/history/history.h"
#include "service/store/store.h"

struct history_query;
/* Runs on a worker. Adds messages to the answer, or returns an error. */
typedef sonde_err history_run(struct history_query *query, struct sonde_diag *diag);

struct history_query {
    struct rpc_document document; /* `run` adds messages, and may draw */
    struct rpc_history *history;
    const ProtobufCMessage *request;
    history_run *run;
    struct store_stop stop;
    uint64_t start_ns;        /* on the monotonic clock: when the worker began */
    struct sonde_arena arena; /* of the worker; freed when `run` has returned */
};

/* Answers the call: with what `run` adds, or SONDE_NOT_AVAILABLE if nothing is kept here, or
 * SONDE_TOO_MANY_CAPTURES if too many queries wait. Loop thread. */
void history_query_start(struct rpc_call *call, const ProtobufCMessage *request, history_run *run);
/* Ends the call with SONDE_NOT_AVAILABLE unless this service keeps history. Loop thread. */
struct rpc_history *history_of(struct rpc_call *call);

/* Nanoseconds since the worker began. */
uint64_t history_query_ns(const struct history_query *query);

#endif
