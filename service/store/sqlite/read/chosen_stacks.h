/* SPDX-License-Identifier: Apache-2.0
 *
 * The stacks that a query counts. Queries name stacks by id; chunks number them per service. Thread
 * safety: one thread at a time. */
#ifndef SONDE_SERVICE_STORE_SQLITE_READ_CHOSEN_STACKS_H
#define SONDE_SERVICE_STORE_SQLITE_READ_CHOSEN_STACKS_H

#include "service/store/sqlite/read/scan.h"

/* Set ids and count (in ascending order); the rest is zeroed. */
struct chosen_stacks {
    const uint64_t *ids; /* NULL = all stacks */
    size_t count;
    uint32_t service; /* of is_chosen; 0 = none yet */
    bool *is_chosen;  /* by number */
    size_t numbers;
};

/* Whether a row of the scan's current service counts. Failures are the scan's db's. */
bool chosen_stacks_has(struct chosen_stacks *chosen, struct scan *scan, uint64_t number);
void chosen_stacks_finish(struct chosen_stacks *chosen);

#endif
