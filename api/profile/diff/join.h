/* SPDX-License-Identifier: Apache-2.0
 *
 * Joins neighbouring blocks that resemble each other. Internal to api/profile/diff. Thread safety:
 * one thread at a time. */
#ifndef SONDE_API_PROFILE_DIFF_JOIN_H
#define SONDE_API_PROFILE_DIFF_JOIN_H

#include "api/profile/diff/blocks.h"

#define BLOCKS_LEAST     4    /* on a side; fewer say little about how much blocks vary */
#define BLOCKS_RESEMBLES 0.25 /* correlation of neighbours, of all functions together */

/* is_in_time: whether the side's blocks follow one another. Sets is_correlated. Errors:
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err blocks_join(struct sonde_blocks *blocks, const bool is_in_time[2]);

#endif
