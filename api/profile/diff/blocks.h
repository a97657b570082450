/* SPDX-License-Identifier: Apache-2.0
 *
 * Several profiles of each side of a comparison, such as runs of a benchmark or seconds of a
 * capture, in one profile. For how functions match, see diff.h; all match those of the first new
 * profile. Thread safety: any thread; the profiles must not change meanwhile.
 *
 * Neighbouring parts of one time may resemble each other, because work comes in bursts. Then they
 * are less evidence than their number says. Such blocks are joined in pairs until they differ as
 * much as any two blocks do, or until fewer than 4 would be left. */
#ifndef SONDE_API_PROFILE_DIFF_BLOCKS_H
#define SONDE_API_PROFILE_DIFF_BLOCKS_H

#include "api/profile/profile.h"
#include "api/profile/verdict/verdict.h"

struct sonde_blocks_side {
    const struct sonde_profile *const *profiles; /* one block each */
    size_t count;
    double scale;            /* the values were multiplied by it before; 1 = they were not */
    const double *exposures; /* of the blocks: what amounts are per; NULL = 1 each */
    /* What the profiles are parts of, in order of time. Its names are compared instead of those of
     * the first profile. NULL = they are not parts of one time, so none are joined. */
    const struct sonde_profile *whole;
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
    size_t counts[2];   /* of blocks: base and new */
    double *exposures;  /* of all blocks */
    bool is_counted;    /* the cells' samples and squares are known */
    bool is_correlated; /* neighbours still resemble each other; too few are left to join them */
};

/* sides: base and new, with at least one profile each. type: NULL = the default. Finish blocks in
 * any case. Errors: those of sonde_profile_compare. */
SONDE_MUST_USE sonde_err sonde_profile_compare_blocks(const struct sonde_blocks_side sides[2],
                                                      const char *type, struct sonde_blocks *blocks,
                                                      struct sonde_diag *diag);
/* Whether the blocks show how much values vary by chance. */
static inline bool sonde_blocks_have_verdicts(const struct sonde_blocks *blocks) {
    return blocks->is_counted || (blocks->counts[0] > 1 && blocks->counts[1] > 1);
}
void sonde_blocks_finish(struct sonde_blocks *blocks);

#endif
