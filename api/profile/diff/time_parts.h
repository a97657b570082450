/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the time of one side of a comparison, which show how much a program's work varies by
 * itself. Thread safety: any thread. */
#ifndef SONDE_API_PROFILE_DIFF_TIME_PARTS_H
#define SONDE_API_PROFILE_DIFF_TIME_PARTS_H

#include "api/profile/diff/blocks.h"
#include "api/profile/timeline.h"

#define SONDE_TIME_PARTS     12   /* at most */
#define SONDE_TIME_PART_MS   1000 /* at least */
#define SONDE_TIME_PARTS_MIN 4    /* fewer say less than the samples of the whole do */

/* Zeroed parts are valid: the side is one block. */
struct sonde_time_parts {
    const struct sonde_profile *profiles[SONDE_TIME_PARTS]; /* owned, in order of time */
    double exposures[SONDE_TIME_PARTS];                     /* parts of the whole time */
    size_t count;
};

/* Cuts a part of the time of a profile: {0, 0} is all of it. Leaves no parts if the profile has no
 * timeline, or if they would be too few. Errors: those of sonde_timeline_cut. Finish them in any
 * case. */
SONDE_MUST_USE sonde_err sonde_time_parts_cut(const struct sonde_profile *profile,
                                              struct sonde_timeline_range range,
                                              struct sonde_time_parts *parts,
                                              struct sonde_diag *diag);
void sonde_time_parts_finish(struct sonde_time_parts *parts);
/* The side of a comparison: the parts of *whole, or *whole as one block. parts may be NULL. scale:
 * that of sonde_blocks_side. Borrows all of it. */
struct sonde_blocks_side sonde_time_parts_side(const struct sonde_time_parts *parts,
                                               const struct sonde_profile *const *whole,
                                               double scale);

#endif
