/* SPDX-License-Identifier: Apache-2.0
 *
 * Connects an engine capture of any kind (CPU time, allocations) with the call that asked for it:
 * progress, result, end. Thread safety: loop thread only. */
#ifndef SONDE_SERVICE_RPC_CAPTURES_CAPTURE_CALL_H
#define SONDE_SERVICE_RPC_CAPTURES_CAPTURE_CALL_H

#include "service/rpc/request/params.h"
#include "service/rpc/saved/save_capture.h"

struct capture;

/* Pass these to the engine with the capture as context: they render and send the result. */
extern const struct engine_capture_events rpc_capture_events;

/* Whether and how the result is saved. */
struct rpc_capture_saving {
    const struct engine_selector *target;
    const char *kind; /* static */
    const char *note; /* NULL = it is not saved */
    bool is_session;
};

/* Makes the capture the call's state. *capture is set as soon as it exists; on an error, end the
 * call with rpc_capture_refuse. */
sonde_err rpc_capture_begin(struct rpc_call *call, const struct rpc_rendering *rendering,
                            const struct rpc_capture_saving *saved, struct capture **capture,
                            struct sonde_diag *diag);
/* Where to store the engine's handle. Sessions have none. */
struct engine_capture **rpc_capture_handle(struct capture *capture);
/* Ends the call if the engine did not accept the capture, so that no event will come. Works without
 * a capture, too. */
void rpc_capture_refuse(struct rpc_call *call, sonde_err err, const struct sonde_diag *diag);

#endif
