/* SPDX-License-Identifier: Apache-2.0
 *
 * Counts distinct keys in a fixed amount of memory: the DISTINCT_EXACT smallest of their hashes are
 * kept. Up to that many keys the count is exact; beyond, k hashes below h of 2^32 mean that there
 * are about (k - 1) * 2^32 / h, with a relative error of 1 / sqrt(k - 2), 9 % (Beyer et al., "On
 * synopses for distinct-value estimation under multiset operations", SIGMOD 2007).
 *
 * Zeroed memory is empty. The caller hashes with a seed, because the keys come from hosts. Thread
 * safety: one thread at a time. */
#ifndef SONDE_CLIENTS_COLLECT_POLICY_DISTINCT_H
#define SONDE_CLIENTS_COLLECT_POLICY_DISTINCT_H

#include <stdint.h>

#define DISTINCT_EXACT 128

struct distinct {
    uint32_t count;
    uint32_t hashes[DISTINCT_EXACT]; /* ascending */
};

void distinct_add(struct distinct *distinct, uint32_t hash);
uint32_t distinct_count(const struct distinct *distinct);

#endif
