/* SPDX-License-Identifier: Apache-2.0
 *
 * A call from the inside: for call.c, which runs it, and call_access.c, which answers what handlers
 * ask of it. Loop thread only. */
#ifndef SONDE_SERVICE_RPC_CORE_CALL_STATE_H
#define SONDE_SERVICE_RPC_CORE_CALL_STATE_H

#include "service/rpc/core/server_state.h"

#include <time.h>

struct rpc_call {
    struct rpc_server *server;
    const struct rpc_method *method;
    grpc_call *call;
    struct rpc_call *next, **link; /* in the server's list */
    uint32_t references;
    bool has_started_sending, is_sending, is_ending, has_ended, is_watched;
    struct loop_tag close_tag, receive_tag, send_tag, status_tag;
    int cancelled;
    grpc_byte_buffer *received, *outgoing;
    const struct rpc_call_events *events;
    void (*on_closed)(struct rpc_call *call);
    void *state;
    struct sonde_arena arena;
    sonde_err end_err; /* with is_ending: the status to send when the message in flight has left */
    struct sonde_diag end_diag;
    int64_t arrived_ns; /* CLOCK_MONOTONIC */
    uint64_t deadline_ns;
    struct rpc_caller caller;
    char peer[64]; /* address without the port */
    struct rpc_audit audit;
    char note[160];
};

#endif
