/* SPDX-License-Identifier: Apache-2.0
 *
 * The History service's share of a server: its store and its workers.
 *
 * Queries and deliveries block, so they run on two pools: a slow query does not delay a delivery.
 * Thread safety: the loop's thread, except where a comment says otherwise. */
#ifndef SONDE_SERVICE_RPC_HISTORY_HISTORY_H
#define SONDE_SERVICE_RPC_HISTORY_HISTORY_H

#include "service/rpc/core/server_options.h"

#define HISTORY_QUERIES         4  /* that run at once */
#define HISTORY_QUERIES_WAITING 64 /* more are refused */
/* Of one caller, running and waiting, so that there is always room for others. */
#define HISTORY_QUERIES_OF_CALLER 32u
#define HISTORY_QUERY_S           120
#define HISTORY_WINDOW_S          10 /* of recorders */
#define HISTORY_WRITES            32 /* Write calls at once; each may hold a message in memory */

struct pool;
struct store;
struct history_names;

struct rpc_history {
    struct store *store;
    struct pool *queries, *writers;
    struct history_names *names;   /* NULL = nothing here could name frames */
    uint32_t writes;               /* Write calls that are running */
    rpc_recorder_info *recorder;   /* NULL = this service does not record */
    rpc_recorder_refresh *refresh; /* NULL as well */
    void *recorder_context;
    rpc_watch_info *watch; /* NULL = nothing looks for changes here */
    void *watch_context;
};

/* SONDE_OUT_OF_MEMORY, or a thread cannot be started. */
SONDE_MUST_USE sonde_err rpc_history_create(const struct rpc_server_options *options,
                                            struct rpc_history **history, struct sonde_diag *diag);
/* When no call is left. NULL is fine. */
void rpc_history_destroy(struct rpc_history *history);

#endif
