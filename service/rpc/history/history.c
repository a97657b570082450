/* SPDX-License-Identifier: Apache-2.0 */
#include "service/rpc/history/history.h"

#include "service/engine/pool.h"
#include "service/rpc/history/names.h"

#include <stdlib.h>

#define WRITERS 2

sonde_err rpc_history_create(const struct rpc_server_options *options, struct rpc_history **created,
                             struct sonde_diag *diag) {
    struct rpc_history *history = calloc(1, sizeof *history);
    if (!history)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    history->store = options->history;
    history->recorder = options->recorder_info;
    history->refresh = options->recorder_refresh;
    history->recorder_context = options->recorder_context;
    history->watch = options->watch_info;
    history->watch_context = options->watch_context;
    sonde_err err = pool_create("sonde-query", HISTORY_QUERIES, HISTORY_QUERIES_WAITING,
                                &history->queries, diag);
    if (!err)
        err = pool_create("sonde-write", WRITERS, HISTORY_WRITES, &history->writers, diag);
    if (!err && options->engine)
        err = history_names_create(history_engine_namer(options->engine), history->store,
                                   &history->names, diag);
    else if (!err && options->namer)
        err = history_names_create(*options->namer, history->store, &history->names, diag);
    if (err)
        rpc_history_destroy(history);
    else
        *created = history;
    return err;
}

void rpc_history_destroy(struct rpc_history *history) {
    if (!history)
        return;
    pool_destroy(history->queries);
    pool_destroy(history->writers);
    history_names_destroy(history->names);
    free(history);
}
