/* SPDX-License-Identifier: Apache-2.0
 *
 * The samples of a profile from the rows of a merge. Internal to profile.c. */
#ifndef SONDE_SERVICE_STORE_PROFILE_ROWS_H
#define SONDE_SERVICE_STORE_PROFILE_ROWS_H

#include "service/store/store.h"

/* Fetches stacks and frames and adds one sample per row. The profile's last type has the row's
 * value; a type before it, if any, has value / period_ns. Stacks that the store does not have, or
 * not completely, are counted. */
SONDE_MUST_USE sonde_err profile_rows_add(struct store *store, const struct store_query *query,
                                          const struct store_merge *merge,
                                          struct sonde_profile *profile, uint64_t *unknown_stacks,
                                          struct sonde_diag *diag);

#endif
