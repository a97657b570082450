/* SPDX-License-Identifier: Apache-2.0
 *
 * Which stacks of a selection have a function on them, by the names that the store knows. Thread
 * safety: any thread. Blocks. */
#ifndef SONDE_SERVICE_STORE_FUNCTION_STACKS_H
#define SONDE_SERVICE_STORE_FUNCTION_STACKS_H

#include "service/store/store.h"

/* Returns the ids of the query's stacks on which a function matches the pattern
 * (api/text/wildcard.h), inlined or not: ascending, each once, in the arena. SONDE_OUT_OF_MEMORY,
 * and the store's errors. */
SONDE_MUST_USE sonde_err store_function_stacks(struct store *store, const struct store_query *query,
                                               const char *pattern, struct sonde_arena *arena,
                                               const uint64_t **stacks, size_t *count,
                                               struct sonde_diag *diag);

#endif
