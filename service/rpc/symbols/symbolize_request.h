/* SPDX-License-Identifier: Apache-2.0
 *
 * One question for names: what Symbolize and SymbolizeStream share. While better answers are on the
 * way the question is asked again, with pauses, until wait_ms is over; no worker waits. Thread
 * safety: the loop's thread, but for pack. */
#ifndef SONDE_SERVICE_RPC_SYMBOLS_SYMBOLIZE_REQUEST_H
#define SONDE_SERVICE_RPC_SYMBOLS_SYMBOLIZE_REQUEST_H

#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/rpc/core/call.h"

#define RPC_MAX_SYMBOL_MAPPINGS 8192
#define RPC_MAX_WAIT_MS         60000

/* Whose addresses. Strings and mappings are the message's, or an arena's. */
struct symbolize_source {
    bool is_target;
    struct engine_selector selector;
    struct engine_symbol_source file;
};

struct symbolize_request {
    struct rpc_call *call;
    const struct symbolize_source *source;
    const uint64_t *addresses;
    size_t count;
    bool return_addresses;
    uint32_t wait_ms;
    /* On a worker, at most once; symbols live during the call. */
    sonde_err (*pack)(struct symbolize_request *query, const struct engine_symbol *symbols,
                      size_t count);
    /* Once, the last thing done with the ask. */
    void (*on_done)(struct symbolize_request *query, sonde_err err, const struct sonde_diag *diag);

    /* Private to symbolize_request.c. */
    struct loop_message message;
    struct loop_timer timer;
    int64_t deadline_ns;
    uint32_t pause_ms;
    bool again, is_packed;
    _Atomic bool hurries;
    sonde_err err;
    struct sonde_diag diag;
};

/* Whether the message says whose addresses they are. */
bool symbolize_request_has_source(const Sonde__V1__SymbolizeRequest *request);
/* Judges the whole message; the source's parts live in the arena or in the message. */
SONDE_MUST_USE sonde_err symbolize_request_read_source(const Sonde__V1__SymbolizeRequest *request,
                                                       struct sonde_arena *arena,
                                                       struct symbolize_source *source,
                                                       struct sonde_diag *diag);
/* Takes addresses, kind and wait from the message. SONDE_TOO_LARGE, SONDE_INVALID_ARGUMENT. */
SONDE_MUST_USE sonde_err symbolize_request_read(const Sonde__V1__SymbolizeRequest *request,
                                                struct symbolize_request *query,
                                                struct sonde_diag *diag);
/* call, source, pack and on_done are set. Holds the call until on_done. */
void symbolize_request_start(struct symbolize_request *query);
/* No more waiting: what is there will do. */
void symbolize_request_hurry(struct symbolize_request *query);

#endif
