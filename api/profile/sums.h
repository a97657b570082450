/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of a profile that only grow, by stack, kept in a small form: 8 bytes and a value for
 * each type. A later profile of the same process can then be reduced to what was added since
 * (sonde_profile_part.before). Stacks are known by a 64-bit hash of their addresses, names of
 * frames without an address, and labels. Thread safety: one thread at a time. */
#ifndef SONDE_API_PROFILE_SUMS_H
#define SONDE_API_PROFILE_SUMS_H

#include "api/hash_index.h"
#include "api/profile/profile.h"

/* Zeroed memory is an empty one. */
struct sonde_profile_sums {
    struct hash_index index;
    uint64_t *keys;
    int64_t *values; /* type_count per key */
    uint32_t count;
    size_t type_count;
};

/* Replaces what *sums has by these types of all samples. SONDE_OUT_OF_MEMORY: it is empty then. */
SONDE_MUST_USE sonde_err sonde_profile_sums_take(struct sonde_profile_sums *sums,
                                                 const struct sonde_profile *profile,
                                                 const size_t *types, size_t type_count);
void sonde_profile_sums_finish(struct sonde_profile_sums *sums);
/* The values that the sample's stack had; NULL = the stack is new. */
const int64_t *sonde_profile_sums_find(const struct sonde_profile_sums *sums,
                                       const struct sonde_profile *profile,
                                       const struct sonde_sample *sample);

#endif
