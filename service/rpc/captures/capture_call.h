/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture of the engine on its way to its call, whatever is captured: the door for other kinds
 * than CPU time. Loop thread only. */
#ifndef SONDE_SERVICE_RPC_CAPTURES_CAPTURE_CALL_H
#define SONDE_SERVICE_RPC_CAPTURES_CAPTURE_CALL_H

#include "service/rpc/captures/save_capture.h"
#include "service/rpc/methods/params.h"

struct capture;

/* What the engine is given, with the capture as its context: the result is drawn and sent. */
extern const struct engine_capture_events rpc_capture_events;

/* Whether and how a result is kept. */
struct rpc_capture_saving {
    const struct engine_selector *target;
    const char *kind; /* static */
    const char *note; /* NULL = it is not kept */
    bool is_session;
};

/* The call's state from now on; *capture is set as soon as it is. Refused by rpc_capture_refuse. */
sonde_err rpc_capture_begin(struct rpc_call *call, const struct rpc_rendering *rendering,
                            const struct rpc_capture_saving *saved, struct capture **capture,
                            struct sonde_diag *diag);
/* Where the engine's handle goes; not used for a session's result. */
struct engine_capture **rpc_capture_handle(struct capture *capture);
/* The engine was not asked: no event will come. Also when there is no capture yet. */
void rpc_capture_refuse(struct rpc_call *call, sonde_err err, const struct sonde_diag *diag);

#endif
