/* SPDX-License-Identifier: Apache-2.0
 *
 * Several profiles of each side of a comparison, such as runs of a benchmark, in one profile. For
 * how functions match, see diff.h; all match those of the first new profile. Thread safety: any
 * thread; the profiles must not change meanwhile. */
#ifndef SONDE_API_PROFILE_DIFF_BLOCKS_H
#define SONDE_API_PROFILE_DIFF_BLOCKS_H

#include "api/profile/profile.h"
#include "api/profile/verdict/verdict.h"

struct sonde_blocks_side {
    const struct sonde_profile *const *profiles; /* one block each */
    size_t count;
    double scale; /* the values were multiplied by it before; 1 = they were not */
};

/* What one block has of one stack. */
struct sonde_block_value {
    uint32_t sample; /* of both */
    uint32_t block;  /* those of the base come first */
    struct verdict_cell cell;
};

struct sonde_blocks {
    struct sonde_profile *both; /* the sums of the sides, as from sonde_profile_compare */
    struct sonde_block_value *values;
    size_t value_count, capacity;
    size_t counts[2]; /* of blocks: base and new */
    bool is_counted;  /* the cells' samples and squares are known */
};

/* sides: base and new, with at least one profile each. type: NULL = the default. Finish blocks in
 * any case. Errors: those of sonde_profile_compare. */
SONDE_MUST_USE sonde_err sonde_profile_compare_blocks(const struct sonde_blocks_side sides[2],
                                                      const char *type, struct sonde_blocks *blocks,
                                                      struct sonde_diag *diag);
void sonde_blocks_finish(struct sonde_blocks *blocks);

#endif
