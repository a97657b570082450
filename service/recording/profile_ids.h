/* SPDX-License-Identifier: Apache-2.0
 *
 * The ids of a profile's stacks. Stacks and frames that the store does not know yet are added to
 * the batch. Internal to service/recording. Thread safety: one thread at a time per batch. */
#ifndef SONDE_SERVICE_RECORDING_PROFILE_IDS_H
#define SONDE_SERVICE_RECORDING_PROFILE_IDS_H

#include "service/recording/batch.h"

struct profile_ids {
    uint64_t *stacks; /* one per sample */
    uint64_t *frames; /* one per location, whose numbers begin at 1; 0 = not computed yet */
};

/* SONDE_OUT_OF_MEMORY. Call profile_ids_finish in any case. */
SONDE_MUST_USE sonde_err profile_ids_find(struct batch *batch, const struct record *record,
                                          struct profile_ids *ids);
void profile_ids_finish(struct profile_ids *ids);

#endif
