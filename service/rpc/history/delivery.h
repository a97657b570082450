/* SPDX-License-Identifier: Apache-2.0
 *
 * A WriteRequest as a batch for the store. Other machines send it, so everything is checked. Thread
 * safety: any thread. */
#ifndef SONDE_SERVICE_RPC_HISTORY_DELIVERY_H
#define SONDE_SERVICE_RPC_HISTORY_DELIVERY_H

#include "proto/sonde/v1/history.pb-c.h"
#include "service/store/store.h"

struct history_delivery {
    struct store_batch batch; /* in the arena, and in the message */
    uint32_t rejected;        /* stacks and frames whose id is not that of their contents */
};

/* SONDE_INVALID_ARGUMENT names what breaks a bound; SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err history_delivery_read(const Sonde__V1__WriteRequest *request,
                                               struct sonde_arena *arena,
                                               struct history_delivery *delivery,
                                               struct sonde_diag *diag);

#endif
