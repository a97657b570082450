/* SPDX-License-Identifier: Apache-2.0
 *
 * An OTLP Export request as a batch for the store. Other machines send it, so everything is
 * checked.
 *
 *     resource, profile ──▶ one window per process     samples of several processes are told apart
 *     dictionary        ──▶ stacks, frames             by their attributes
 *
 *     sample type             stored as   values
 *     cpu; samples of cpu     on-cpu      nanoseconds; a count is multiplied by the period
 *     off_cpu, events         off-cpu
 *     alloc_space             mem-alloc   bytes
 *     inuse_space             mem-inuse
 *     another one             its name    nanoseconds, or bytes with "mem-" before the name
 *
 * A profile that is sent again counts as a duplicate: it is identified by its profile_id, or
 * without one by its contents. Thread safety: any thread. */
#ifndef SONDE_SERVICE_RPC_OTLP_DELIVERY_H
#define SONDE_SERVICE_RPC_OTLP_DELIVERY_H

#include "service/rpc/otlp/frames.h"

#define OTLP_MAX_PROCESSES 4096 /* of one profile */

struct otlp_delivery {
    struct store_batch batch; /* in the arena, the message and the lists */
    struct sonde_arena arena;
    struct otlp_frames frames;
    struct store_list windows, stacks;
    int64_t rejected;    /* profiles that cannot be stored */
    char rejection[400]; /* why the first of them cannot; "" = there is none */
};

/* now_unix_ns: for profiles without a time. SONDE_INVALID_ARGUMENT or SONDE_TOO_LARGE names what
 * breaks a bound; SONDE_OUT_OF_MEMORY. The batch borrows from the request. Call
 * otlp_delivery_finish in any case. */
SONDE_MUST_USE sonde_err otlp_delivery_read(const otlp_request *request, int64_t now_unix_ns,
                                            struct otlp_delivery *delivery,
                                            struct sonde_diag *diag);
void otlp_delivery_finish(struct otlp_delivery *delivery);

#endif
