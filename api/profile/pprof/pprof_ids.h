/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps the ids of a pprof file, any nonzero numbers, to ids of a profile. Internal to pprof_read.c.
 */
#ifndef SONDE_API_PROFILE_PPROF_PPROF_IDS_H
#define SONDE_API_PROFILE_PPROF_PPROF_IDS_H

#include "api/error.h"
#include "api/profile/table.h"

struct pprof_ids {
    struct profile_table table;
};

void pprof_ids_init(struct pprof_ids *ids);
/* Errors: SONDE_CORRUPT if `from` was added before, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err pprof_ids_add(struct pprof_ids *ids, uint64_t from, uint32_t to);
/* 0 if it was not added. */
uint32_t pprof_ids_find(const struct pprof_ids *ids, uint64_t from);
void pprof_ids_finish(struct pprof_ids *ids);

#endif
