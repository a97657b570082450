/* SPDX-License-Identifier: Apache-2.0
 *
 * From stored sums to a profile: fetches the stacks and frames that a merge names and builds
 * pprof's model, so that everything that can draw a capture can draw history.
 *
 * Sample types: the amount of the event (event.h), after samples/count if it has samples. Labels:
 * "thread", and "service" if the query named none. Thread safety: any thread. Blocks. */
#ifndef SONDE_SERVICE_STORE_PROFILE_H
#define SONDE_SERVICE_STORE_PROFILE_H

#include "service/store/store.h"

struct store_profile {
    struct sonde_profile *profile; /* the caller destroys it */
    /* How complete it is; its texts are in the arena. */
    struct store_merge merge; /* without rows */
    uint64_t unknown_stacks;
};

/* SONDE_TOO_LARGE beyond limit_bytes (0 = 1 GiB); what the store returns. */
SONDE_MUST_USE sonde_err store_profile_query(struct store *store, const struct store_query *query,
                                             struct sonde_arena *arena, size_t limit_bytes,
                                             struct store_profile *result, struct sonde_diag *diag);
/* The host view: locations without addresses, "process" and, as label "thread", the thread. */
SONDE_MUST_USE sonde_err store_profile_totals(struct store *store, const struct store_query *query,
                                              struct sonde_arena *arena,
                                              struct store_profile *result,
                                              struct sonde_diag *diag);

#endif
