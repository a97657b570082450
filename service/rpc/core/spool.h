/* SPDX-License-Identifier: Apache-2.0
 *
 * A result that is too large for memory, on its way to its call: a file without a name in the data
 * directory (in memory where there is none), written by the worker that draws and read by the loop.
 * One thread at a time. */
#ifndef SONDE_SERVICE_RPC_CORE_SPOOL_H
#define SONDE_SERVICE_RPC_CORE_SPOOL_H

#include "api/draw/draw.h"
#include "service/rpc/core/call.h"

struct rpc_spool {
    int fd; /* -1: nothing was written */
    const char *dir;
    uint64_t len, limit, sent;
    struct sonde_draw_sink sink; /* for the drawing */
    sonde_err err;
    struct sonde_diag diag;
};

/* The spool must not move afterwards. dir may be NULL. */
void rpc_spool_init(struct rpc_spool *spool, const char *dir, uint64_t limit);
void rpc_spool_finish(struct rpc_spool *spool);
/* Puts what the sink did not get behind it, if it got anything; bytes is empty then. */
SONDE_MUST_USE sonde_err rpc_spool_end(struct rpc_spool *spool, struct sonde_buf *bytes,
                                       struct sonde_diag *diag);
bool rpc_spool_has_next(const struct rpc_spool *spool);
/* The next chunk; there must be one. SONDE_IO. */
SONDE_MUST_USE sonde_err rpc_spool_send(struct rpc_spool *spool, struct rpc_call *call,
                                        struct sonde_diag *diag);

#endif
