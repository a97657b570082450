/* SPDX-License-Identifier: Apache-2.0
 *
 * Distinct ids, numbered from 0 in the order of adding. Ids of stacks are distinct per service,
 * which is their group. Thread safety: one thread at a time per set. */
#ifndef SONDE_SERVICE_STORE_ID_SET_H
#define SONDE_SERVICE_STORE_ID_SET_H

#include "api/error.h"
#include "api/hash_index.h"

#include <stddef.h>
#include <stdint.h>

struct id_set {
    struct hash_index index;
    uint64_t *ids;
    uint32_t *groups;
    uint32_t count, capacity;
};

void id_set_init(struct id_set *set);
void id_set_finish(struct id_set *set);
/* Adds the id unless it is there. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err id_set_add(struct id_set *set, uint32_t group, uint64_t id,
                                    uint32_t *number);
/* Its number, or HASH_INDEX_NONE. */
uint32_t id_set_find(const struct id_set *set, uint32_t group, uint64_t id);

#endif
