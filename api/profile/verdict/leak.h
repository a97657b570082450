/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether memory leaks: what an allocation site held at the end of each of some equal blocks of
 * time, judged beside the CPU time of the same blocks.
 *
 *     LEAK_GROWS             it grows from a block on until the end, whatever the load is
 *     LEAK_LEVELS_OFF        it grew, and grows much less at the end: a cache that fills up
 *     LEAK_FOLLOWS_TRAFFIC   it grows because the load does
 *     LEAK_NONE              no growth beyond noise
 *
 * A step is the growth from one block to the next. Steps in which processes began or ended do not
 * count. The load's part is estimated by least squares of the sum of the steps on time and CPU
 * time, and is taken away. The time may have one bend: growth that begins, or that ends. The test
 * is Student's t of the mean step. Values that only vary come back, so their steps cancel each
 * other and nothing is found. The test is made for all blocks, for the last three quarters and for
 * the last half, because a leak may begin with a new version. It is also made for the first third
 * and the first two thirds, because a cache may be full since then. Thread safety: any thread. */
#ifndef SONDE_API_PROFILE_VERDICT_LEAK_H
#define SONDE_API_PROFILE_VERDICT_LEAK_H

#include <stdbool.h>
#include <stddef.h>

#define LEAK_LEAST_BLOCKS 24
#define LEAK_MAX_BLOCKS   48
#define LEAK_CHANCE       5e-4 /* that one site without growth is found to grow */
#define LEAK_LEAST_SHARE  0.01 /* growth below this part of the whole memory is not judged */
#define LEAK_LEVEL        0.35 /* a site levels off if its late growth is below this part */

enum leak_kind { LEAK_NONE, LEAK_GROWS, LEAK_LEVELS_OFF, LEAK_FOLLOWS_TRAFFIC };

/* What all sites have in common. */
struct leak_blocks {
    size_t count;           /* LEAK_LEAST_BLOCKS to LEAK_MAX_BLOCKS, oldest first */
    double whole;           /* memory of all sites at the end of the last block */
    const double *traffic;  /* CPU time of each block */
    const bool *is_changed; /* by block: the step to it does not count */
};

struct leak_verdict {
    enum leak_kind kind;
    size_t since;           /* first block that ends with more; 0 for LEAK_NONE */
    double rate, low, high; /* growth from block to block since then, and its 95 % interval */
};

/* values: by block. */
struct leak_verdict leak_judge(const struct leak_blocks *blocks, const double *values);

#endif
