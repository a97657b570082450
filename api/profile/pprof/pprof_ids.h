/* SPDX-License-Identifier: Apache-2.0
 *
 * From the ids of a file (any numbers but 0) to ours. Internal to pprof_read.c. */
#ifndef SONDE_API_PROFILE_PPROF_PPROF_IDS_H
#define SONDE_API_PROFILE_PPROF_PPROF_IDS_H

#include "api/error.h"
#include "api/profile/table.h"

struct pprof_ids {
    struct profile_table table;
};

void pprof_ids_init(struct pprof_ids *ids);
/* SONDE_CORRUPT when `from` is there already, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err pprof_ids_add(struct pprof_ids *ids, uint64_t from, uint32_t to);
/* 0 when there is none. */
uint32_t pprof_ids_find(const struct pprof_ids *ids, uint64_t from);
void pprof_ids_finish(struct pprof_ids *ids);

#endif
