/* SPDX-License-Identifier: Apache-2.0
 *
 * An answer that the engine gives on a worker: the worker packs the whole message, and only its
 * bytes are passed to the loop. */
#ifndef SONDE_SERVICE_RPC_THREADS_PACKED_ANSWER_H
#define SONDE_SERVICE_RPC_THREADS_PACKED_ANSWER_H

#include "service/engine/engine.h"
#include "service/rpc/core/handlers.h"
#include "service/rpc/core/server_state.h"

/* The first member of a struct that is allocated with malloc or calloc. */
struct packed_answer {
    struct loop_message message;
    struct rpc_call *call; /* taken */
    sonde_err err;
    struct sonde_diag diag;
    grpc_slice packed; /* if err is SONDE_OK */
    char note[96];     /* for the log */
};

/* Before the engine is asked: takes the call. If the engine refuses, drop the call and free the
 * answer. */
void packed_answer_begin(struct packed_answer *answer, struct rpc_call *call,
                         const struct engine_selector *target);
/* On the worker: sends the answer, of which err, diag, packed and note are set, and frees it. */
void packed_answer_post(struct packed_answer *answer);

#endif
