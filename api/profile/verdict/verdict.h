/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether the difference between two samplings of a program is real.
 *
 * Each side of a comparison is one block (a profile), or several that are about independent of each
 * other: runs, windows of history, seconds of a capture. For each function, verdict_change
 * estimates the change of its share of the total, or of its amount, with a confidence interval.
 * verdict_judge then decides for all functions of the comparison together.
 *
 * One block: the interval of a share is Wilson's (1927, JASA 22, page 209), with the effective
 * number of samples that the variance of a ratio estimator has (Cochran, Sampling Techniques,
 * chapter 6; Kish, Survey Sampling, 1965), because samples have different weights. The interval of
 * an amount is the score interval of a Poisson count, the limit of Wilson's for a small share. Both
 * have limits for a function without samples: 3.84 samples at 95 %.
 *
 * Several blocks: the variance between blocks of a ratio estimator, and Student's t with one degree
 * of freedom less than there are blocks. A function with fewer than 10 samples on a side has the
 * wider one of both intervals, because its blocks are far from normally distributed.
 *
 * The limits of both sides are combined as by Newcombe (1998, Statistics in Medicine 17, page 873,
 * method 10) and Zou and Donner (2008, Statistics in Medicine 27, page 1693), with the degrees of
 * freedom of Welch (1947, Biometrika 34, page 28).
 *
 * What the intervals leave out:
 * - One block: samples count as independent. Work in bursts, or work with the period of the
 *   sampling, varies more than the interval says; only several blocks show that. Amounts count as
 *   Poisson distributed. With clocks of CPU time they vary less, so their intervals are too wide.
 * - Several blocks: with 3 on a side, intervals are a little too wide. In simulations, 96.4 %
 *   of them contain the truth. Blocks that resemble their neighbours are fewer in effect. Without
 *   sample counts, a function without value in all blocks of a side counts as certain to be absent
 *   there.
 * - Both: machines, inputs and builds differ between runs in ways that no sample shows.
 *
 * Thread safety: any thread. */
#ifndef SONDE_API_PROFILE_VERDICT_VERDICT_H
#define SONDE_API_PROFILE_VERDICT_VERDICT_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>

/* Samples of a function, or of all functions, in one block. */
struct verdict_cell {
    double value;   /* the sum of the samples' weights, such as nanoseconds */
    double samples; /* their number */
    double squares; /* the sum of the squared weights, which is the variance of value */
};

static inline void verdict_cell_add(struct verdict_cell *into, const struct verdict_cell *from) {
    into->value += from->value;
    into->samples += from->samples;
    into->squares += from->squares;
}

static inline void verdict_cell_subtract(struct verdict_cell *from,
                                         const struct verdict_cell *part) {
    from->value -= part->value;
    from->samples -= part->samples;
    from->squares -= part->squares;
}

struct verdict_side {
    size_t block_count;
    const struct verdict_cell *totals; /* of each block */
    const double *exposures; /* what amounts are per: seconds, requests; NULL = 1 for each block */
    bool is_counted;         /* samples and squares are known */
};

enum verdict_measure {
    VERDICT_SHARE,  /* of the total, from 0 to 1 */
    VERDICT_AMOUNT, /* value per exposure */
};

enum verdict {
    VERDICT_TOO_FEW = 0, /* not even a doubling could be seen, or nothing is known */
    VERDICT_NOISE,       /* a change, if there is one, is within the interval */
    VERDICT_MORE,
    VERDICT_LESS,
};

struct verdict_change {
    double before, after;
    double change;    /* after - before */
    double low, high; /* confidence interval of change; infinite if nothing is known */
    double p; /* probability of such a change by chance, two-sided; 1 if the interval contains 0 */
    double samples;       /* of the function, on both sides together; INFINITY if not counted */
    enum verdict verdict; /* after verdict_judge */
};

/* sides: base and new. cells: of the function, one per block of the side. confidence: 0.5 to
 * 0.9999. Leaves change->verdict VERDICT_TOO_FEW. */
void verdict_change(const struct verdict_side sides[2], const struct verdict_cell *const cells[2],
                    enum verdict_measure measure, double confidence, struct verdict_change *change);

/* Decides for the changes of all functions in one comparison. At most 1 - confidence of those that
 * are MORE or LESS are so by chance (the false discovery rate, by Benjamini and Hochberg, 1995,
 * Journal of the Royal Statistical Society B 57, page 289). Functions whose samples are too few to
 * reach that probability in any case are left out of the count (Tarone, 1990, Biometrics 46, page
 * 515). So a function may be NOISE although its own interval excludes 0. Errors:
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err verdict_judge(struct verdict_change *changes, size_t count,
                                       double confidence);

/* Half the width of the interval that a function with that share on both sides has: what its change
 * must exceed to be seen, from 0 to 1. Sides of one block each; INFINITY if nothing is known. */
double verdict_least_change(const struct verdict_side sides[2], double share, double confidence);

/* "more", "less", "within noise", "not enough samples" */
const char *verdict_text(enum verdict verdict);

#endif
