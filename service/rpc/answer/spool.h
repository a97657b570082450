/* SPDX-License-Identifier: Apache-2.0
 *
 * Holds a result that is too large for memory until its call has sent it. It is an unnamed file in
 * the data directory, or a memfd if there is none. The worker that renders the result writes it,
 * then the loop reads it. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_RPC_ANSWER_SPOOL_H
#define SONDE_SERVICE_RPC_ANSWER_SPOOL_H

#include "api/draw/draw.h"
#include "service/rpc/core/call.h"

struct rpc_spool {
    int fd; /* -1 = nothing has been written */
    const char *dir;
    uint64_t len, limit, sent;
    struct sonde_draw_sink sink; /* where the renderer writes */
    sonde_err err;
    struct sonde_diag diag;
};

/* The spool must not move afterwards. dir may be NULL. */
void rpc_spool_init(struct rpc_spool *spool, const char *dir, uint64_t limit);
void rpc_spool_finish(struct rpc_spool *spool);
/* If the sink was used, appends `bytes`, the rest of the result, and empties it. */
SONDE_MUST_USE sonde_err rpc_spool_end(struct rpc_spool *spool, struct sonde_buf *bytes,
                                       struct sonde_diag *diag);
bool rpc_spool_has_next(const struct rpc_spool *spool);
/* Sends the next chunk; there must be one. SONDE_IO. */
SONDE_MUST_USE sonde_err rpc_spool_send(struct rpc_spool *spool, struct rpc_call *call,
                                        struct sonde_diag *diag);

#endif
