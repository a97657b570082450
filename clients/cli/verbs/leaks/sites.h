/* SPDX-License-Identifier: Apache-2.0
 *
 * What allocation sites hold at the end of each block of time. A site is the innermost function of
 * a stack that belongs neither to an allocator nor to a language's containers. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_LEAKS_SITES_H
#define SONDE_CLIENTS_CLI_VERBS_LEAKS_SITES_H

#include "api/hash_index.h"
#include "api/profile/profile.h"
#include "api/profile/verdict/leak.h"

#define SITES_MAX     8192u /* further ones are not judged, and counted */
#define SITES_CALLERS 3u

struct site {
    char *name;
    double values[LEAK_MAX_BLOCKS];
    char *callers[SITES_CALLERS]; /* of its largest stack, the nearest first; NULL = none */
    double largest;               /* that stack's memory */
    size_t largest_block;
};

struct sites {
    struct hash_index index; /* by name */
    struct site *items;
    size_t count, capacity;
    uint64_t left_out;              /* samples of sites beyond SITES_MAX */
    double totals[LEAK_MAX_BLOCKS]; /* of all sites */
};

void sites_init(struct sites *sites);
/* Adds what is live at a block's end, by the sample type inuse_space. The blocks come in their
 * order. SONDE_OUT_OF_MEMORY; SONDE_INVALID_ARGUMENT: the profile has no such type. */
SONDE_MUST_USE sonde_err sites_add(struct sites *sites, size_t block,
                                   const struct sonde_profile *profile, struct sonde_diag *diag);
void sites_finish(struct sites *sites);

#endif
