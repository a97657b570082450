/* SPDX-License-Identifier: Apache-2.0
 *
 * ListHeapDumps for processes that have ended. Only heap.c uses it. Thread safety: loop thread. */
#ifndef SONDE_SERVICE_RPC_HEAP_ENDED_DUMPS_H
#define SONDE_SERVICE_RPC_HEAP_ENDED_DUMPS_H

#include "proto/sonde/v1/profiler.pb-c.h"
#include "service/engine/heap/heap.h"
#include "service/rpc/core/call.h"

void rpc_list_ended_dumps(struct rpc_call *call, const Sonde__V1__TargetSelector *target);
/* Fills the message for one dump; the name is borrowed. */
void rpc_heap_fill_dump(struct engine_heap_dump *from, Sonde__V1__HeapDump *dump);

#endif
