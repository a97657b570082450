/* SPDX-License-Identifier: Apache-2.0
 *
 * What a change of a level was: the functions' names and callers, whether only one host changed,
 * and the labels whose values changed at that time. Thread safety: any thread. Blocks. */
#ifndef SONDE_SERVICE_WATCH_EXPLAIN_H
#define SONDE_SERVICE_WATCH_EXPLAIN_H

#include "proto/sonde/v1/history.pb-c.h"
#include "service/watch/slots.h"

#define EXPLAIN_CALLERS      8
#define EXPLAIN_LABELS       8
#define EXPLAIN_ASKED_LABELS 32 /* names that are asked for; the rest is left out */
#define EXPLAIN_HOSTS        1000
#define EXPLAIN_BYTES        (256u << 20) /* of a profile in memory */

struct explaining {
    struct store *store;
    const struct slots *slots;
    const struct level_result *result;
    const struct store_stop *stop;
    struct sonde_arena *arena; /* has all texts of the change */
    int64_t now_unix_s;
};

/* Fills the change. Errors: the store's, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err watch_explain(const struct explaining *explaining,
                                       Sonde__V1__Change *change, struct sonde_diag *diag);

#endif
