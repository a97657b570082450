/* SPDX-License-Identifier: Apache-2.0
 *
 * Each side is estimated by itself. A side has limits for any quantile q, which the two sides have
 * in common, so the p value is that of the q whose interval just touches 0. */
#include "api/profile/verdict/distribution.h"
#include "api/profile/verdict/interval.h"
#include "api/profile/verdict/verdict.h"

#include <math.h>

#define FEW_SAMPLES   10
#define PRIOR_SAMPLES 10
#define LARGEST_Q     1e4

/* One side's estimate of a share or amount. */
struct estimate {
    double value;
    bool has_blocks;
    double deviation, degrees; /* of the blocks; degrees INFINITY = one block */
    bool is_counted;
    double effective;  /* VERDICT_SHARE: number of samples in the total */
    double count;      /* of the function, effective */
    double per_sample; /* VERDICT_AMOUNT: value of one sample; 0 = the value is exact */
};

/* ---- Sums over blocks ---- */

static double exposure(const struct verdict_side *side, size_t block) {
    return side->exposures ? side->exposures[block] : 1;
}

static struct verdict_cell sum(const struct verdict_cell *cells, size_t count) {
    struct verdict_cell all = {0};
    for (size_t i = 0; i < count; i++)
        verdict_cell_add(&all, &cells[i]);
    return all;
}

static double denominator(const struct verdict_side *side, enum verdict_measure measure,
                          size_t block) {
    return measure == VERDICT_SHARE ? side->totals[block].value : exposure(side, block);
}

/* Variance of the ratio estimator, from the residuals of the blocks. */
static double deviation_between(const struct verdict_side *side, const struct verdict_cell *cells,
                                enum verdict_measure measure, double value, double whole) {
    double squares = 0, blocks = (double)side->block_count;
    for (size_t i = 0; i < side->block_count; i++) {
        double residual = cells[i].value - value * denominator(side, measure, i);
        squares += residual * residual;
    }
    return sqrt(squares * blocks / (blocks - 1)) / whole;
}

/* ---- Sampling ---- */

/* How many samples of equal weight would have the same variance. */
static double effective_samples(double share, double squares, const struct verdict_cell *total) {
    double outside = total->squares > squares ? total->squares - squares : 0;
    double variance = (1 - share) * (1 - share) * squares + share * share * outside;
    variance /= total->value * total->value;
    if (share > 0 && share < 1 && variance > 0)
        return share * (1 - share) / variance;
    return total->squares > 0 ? total->value * total->value / total->squares : INFINITY;
}

/* The squared weights of a function's samples per weight. Few samples do not show how different
 * their weights can be, so PRIOR_SAMPLES typical ones are added. */
static double squares_per_value(const struct verdict_cell *cell, double typical) {
    double value = cell->value + PRIOR_SAMPLES * typical;
    double squares = cell->squares + PRIOR_SAMPLES * typical * typical;
    return value > 0 ? squares / value : 0;
}

static void count_samples(struct estimate *estimate, const struct verdict_cell *cell,
                          const struct verdict_cell *total, double typical) {
    estimate->per_sample = squares_per_value(cell, typical);
    if (total->value > 0)
        estimate->effective = effective_samples(cell->value / total->value,
                                                cell->value * estimate->per_sample, total);
    if (cell->value > 0)
        estimate->count = estimate->per_sample > 0 ? cell->value / estimate->per_sample : INFINITY;
}

static struct verdict_limits poisson(const struct estimate *estimate, double exposure, double q) {
    double unit = estimate->per_sample / exposure;
    if (isinf(estimate->count) || unit <= 0)
        return (struct verdict_limits){estimate->value, estimate->value};
    struct verdict_limits limits = verdict_poisson(estimate->count, q);
    return (struct verdict_limits){limits.low * unit, limits.high * unit};
}

/* ---- One side ---- */

struct half {
    struct estimate estimate;
    enum verdict_measure measure;
    double exposure; /* of all blocks */
    bool is_known;
};

/* typical: value of one sample, on both sides together. */
static struct half estimate_side(const struct verdict_side *side, const struct verdict_cell *cells,
                                 enum verdict_measure measure, double typical) {
    struct half half = {.measure = measure, .estimate = {.degrees = INFINITY}};
    struct estimate *estimate = &half.estimate;
    struct verdict_cell cell = sum(cells, side->block_count);
    struct verdict_cell total = sum(side->totals, side->block_count);
    for (size_t i = 0; i < side->block_count; i++)
        half.exposure += exposure(side, i);
    double whole = measure == VERDICT_SHARE ? total.value : half.exposure;
    estimate->is_counted = side->is_counted;
    estimate->has_blocks = side->block_count > 1;
    half.is_known = whole > 0 && (side->is_counted || estimate->has_blocks);
    if (whole <= 0)
        return half;
    estimate->value = cell.value / whole;
    if (side->is_counted)
        count_samples(estimate, &cell, &total, typical);
    if (!estimate->has_blocks)
        return half;
    estimate->degrees = (double)(side->block_count - 1);
    estimate->deviation = deviation_between(side, cells, measure, estimate->value, whole);
    return half;
}

static struct verdict_limits sampling_limits(const struct half *half, double q) {
    const struct estimate *estimate = &half->estimate;
    return half->measure == VERDICT_SHARE ? verdict_wilson(estimate->value, estimate->effective, q)
                                          : poisson(estimate, half->exposure, q);
}

static struct verdict_limits limits_of(const struct half *half, double q) {
    const struct estimate *estimate = &half->estimate;
    if (!estimate->has_blocks)
        return sampling_limits(half, q);
    double width = q * estimate->deviation;
    struct verdict_limits limits = {estimate->value - width, estimate->value + width};
    if (estimate->is_counted && estimate->count < FEW_SAMPLES) {
        struct verdict_limits sampling = sampling_limits(half, q);
        limits.low = fmin(limits.low, sampling.low);
        limits.high = fmax(limits.high, sampling.high);
    }
    return limits;
}

/* ---- Both sides ---- */

static double square(double value) {
    return value * value;
}

static struct verdict_limits combine(const struct half halves[2], double q) {
    struct verdict_limits base = limits_of(&halves[0], q), now = limits_of(&halves[1], q);
    double before = halves[0].estimate.value, after = halves[1].estimate.value;
    return (struct verdict_limits){
        after - before - sqrt(square(after - now.low) + square(base.high - before)),
        after - before + sqrt(square(now.high - after) + square(before - base.low))};
}

/* Welch's; of sides that do not vary, those of the side with fewer blocks. */
static double degrees_of(const struct half halves[2]) {
    double sum = 0, parts = 0, least = INFINITY;
    for (int i = 0; i < 2; i++) {
        const struct estimate *estimate = &halves[i].estimate;
        struct verdict_limits one = limits_of(&halves[i], 1);
        double variance = square((one.high - one.low) / 2);
        sum += variance;
        parts += square(variance) / estimate->degrees;
        least = fmin(least, estimate->degrees);
    }
    return parts > 0 ? square(sum) / parts : least;
}

/* The q whose interval just touches 0. */
static double touching_q(const struct half halves[2], double change) {
    double low = 0, high = LARGEST_Q;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        struct verdict_limits limits = combine(halves, middle);
        if (change > 0 ? limits.low > 0 : limits.high < 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Value of one sample, of both sides together. */
static double typical_value(const struct verdict_side sides[2]) {
    double values = 0, squares = 0;
    for (int i = 0; i < 2; i++) {
        struct verdict_cell total = sum(sides[i].totals, sides[i].block_count);
        values += total.value;
        squares += total.squares;
    }
    return values > 0 ? squares / values : 0;
}

static double samples_of(const struct half *half) {
    return half->estimate.is_counted ? half->estimate.count : INFINITY;
}

void verdict_change(const struct verdict_side sides[2], const struct verdict_cell *const cells[2],
                    enum verdict_measure measure, double confidence,
                    struct verdict_change *change) {
    struct half halves[2];
    double typical = typical_value(sides);
    for (int i = 0; i < 2; i++)
        halves[i] = estimate_side(&sides[i], cells[i], measure, typical);
    *change = (struct verdict_change){.before = halves[0].estimate.value,
                                      .after = halves[1].estimate.value,
                                      .low = -INFINITY,
                                      .high = INFINITY,
                                      .p = 1,
                                      .samples = samples_of(&halves[0]) + samples_of(&halves[1])};
    change->change = change->after - change->before;
    if (!halves[0].is_known || !halves[1].is_known)
        return;
    double degrees = degrees_of(halves);
    struct verdict_limits limits = combine(halves, verdict_quantile(confidence, degrees));
    change->low = limits.low;
    change->high = limits.high;
    if (change->low > 0 || change->high < 0)
        change->p = verdict_tail(touching_q(halves, change->change), degrees);
}

double verdict_least_change(const struct verdict_side sides[2], double share, double confidence) {
    struct half halves[2];
    for (int i = 0; i < 2; i++) {
        struct verdict_cell total = sum(sides[i].totals, sides[i].block_count);
        if (!sides[i].is_counted || total.squares <= 0)
            return INFINITY;
        halves[i] = (struct half){
            .measure = VERDICT_SHARE,
            .estimate = {.value = share, .effective = square(total.value) / total.squares}};
    }
    struct verdict_limits limits = combine(halves, verdict_quantile(confidence, INFINITY));
    return (limits.high - limits.low) / 2;
}
