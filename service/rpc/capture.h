/* SPDX-License-Identifier: Apache-2.0
 *
 * A capture of the engine on its way to its call, whatever is captured: the door for other kinds
 * than CPU time. Loop thread only. */
#ifndef SONDE_SERVICE_RPC_CAPTURE_H
#define SONDE_SERVICE_RPC_CAPTURE_H

#include "service/rpc/keep.h"
#include "service/rpc/params.h"

struct capture;

/* What the engine is given, with the capture as its context: the result is drawn and sent. */
extern const struct engine_capture_events rpc_capture_events;

/* The call's state from now on. NULL when out of memory. */
struct capture *rpc_capture_create(struct rpc_call *call, const struct rpc_rendering *rendering);
/* Where the engine's handle goes; not used for a session's result. */
struct engine_capture **rpc_capture_handle(struct capture *capture);
struct keep *rpc_capture_keep(struct capture *capture);
/* The engine was not asked: no event will come. Also when there is no capture yet. */
void rpc_capture_refuse(struct rpc_call *call, sonde_err err, const struct sonde_diag *diag);

#endif
