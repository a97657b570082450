/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory layout of a profile: interning tables, and an arena for data of variable size. */
#ifndef SONDE_API_PROFILE_PROFILE_TABLES_H
#define SONDE_API_PROFILE_PROFILE_TABLES_H

#include "api/profile/profile.h"
#include "api/profile/table.h"

struct profile_text {
    const char *data; /* NUL-terminated, in the arena */
    size_t len;
};

/* `block` has the values and then the labels. The location ids follow, unless they are in adopted
 * memory. */
struct profile_sample {
    int64_t *block;
    const uint32_t *locations;
    uint64_t sampled;
    uint32_t location_count, label_count;
};

struct profile_type {
    uint32_t type, unit;
};

struct sonde_profile {
    _Atomic uint32_t owners;
    struct sonde_arena arena;
    void **adopted;
    size_t adopted_count, adopted_bytes;
    struct profile_table strings, mappings, functions, locations, samples, comments;
    struct profile_type types[SONDE_PROFILE_MAX_TYPES], period_type;
    size_t type_count, limit_bytes;
    struct sonde_profile_info info;
    struct sonde_timeline *timeline; /* owned; NULL = none */
};

/* SONDE_TOO_LARGE if `bytes` in the arena and one more item in table would exceed the limit. */
SONDE_MUST_USE sonde_err profile_reserve(const struct sonde_profile *profile,
                                         const struct profile_table *table, size_t bytes);

/* The stored sample in public form; borrowed. */
struct sonde_sample profile_stored_sample(const struct sonde_profile *profile,
                                          const struct profile_sample *stored);

/* Saturating arithmetic. */
int64_t profile_add(int64_t a, int64_t b);
int64_t profile_multiply(int64_t a, int64_t b);

#endif
