/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/verdict/leak.h"

#include "api/profile/verdict/distribution.h"

#include <math.h>

#define LEAST_STEPS (LEAK_LEAST_BLOCKS / 3)
#define EXPLAINED \
    0.3 /* below this part of the growth is left without the load's: it is the load's */
#define TOGETHER 0.95 /* time and load with this correlation cannot be told apart */
#define PROPER   1.5  /* they then explain this many times the load's own growth */
#define FITS     0.5  /* a load or a bend counts if it leaves at most this part of the squares */

struct growth {
    double mean, deviation; /* from block to block; of the mean */
    double degrees;         /* of freedom */
    size_t count;           /* of steps from one block to the next */
};

/* Measures the steps that lead to the blocks from `first` to before `end`. is_bent: the growth
 * becomes slower or faster, which is not noise. The variance then comes from the differences of
 * neighbouring steps (von Neumann, 1941, Annals of Mathematical Statistics 12, page 367), with two
 * thirds of the usual degrees of freedom. */
static struct growth measure(const struct leak_blocks *blocks, const double *values, size_t first,
                             size_t end, bool is_bent) {
    struct growth growth = {.deviation = INFINITY, .degrees = 1};
    double sum = 0, squares = 0, bends = 0, last = 0;
    for (size_t i = first; i < end; i++) {
        if (blocks->is_changed[i])
            continue;
        double step = values[i] - values[i - 1];
        sum += step;
        squares += step * step;
        if (growth.count++ > 0)
            bends += (step - last) * (step - last) / 2;
        last = step;
    }
    double count = (double)growth.count;
    if (growth.count < 2)
        return growth;
    growth.mean = sum / count;
    squares = is_bent ? bends : fmax(squares - sum * growth.mean, 0);
    growth.deviation = sqrt(squares / (count - 1) / count);
    growth.degrees = is_bent ? (count - 1) * 2 / 3 : count - 1;
    return growth;
}

static double tail_of(struct growth growth) {
    if (growth.count < LEAST_STEPS || growth.mean <= 0)
        return 1;
    if (growth.deviation <= 0)
        return 0;
    return verdict_tail(growth.mean / growth.deviation, growth.degrees);
}

/* ---- the load ---- */

/* A line with one bend: flat until there, or flat from there on. */
struct shape {
    size_t bend;
    bool ends;
};

/* Least squares of y = a + g t + b c, where t is the time as the shape bends it. */
struct fit {
    struct shape shape;
    double load;     /* b; 0 without */
    double misfit;   /* the squares that are left */
    double together; /* correlation of t and c */
};

static double bent(struct shape shape, size_t i) {
    if (shape.ends)
        return (double)(i < shape.bend ? i : shape.bend);
    return i > shape.bend ? (double)(i - shape.bend) : 0;
}

static struct fit fit(const struct leak_blocks *blocks, const double *values, struct shape shape,
                      bool has_load) {
    double n = 0, t = 0, c = 0, y = 0, tt = 0, cc = 0, yy = 0, tc = 0, ty = 0, cy = 0;
    for (size_t i = 0; i < blocks->count; i++) {
        double at = bent(shape, i), used = blocks->traffic[i], value = values[i];
        n++, t += at, c += used, y += value;
        tt += at * at, cc += used * used, yy += value * value;
        tc += at * used, ty += at * value, cy += used * value;
    }
    tt -= t * t / n, cc -= c * c / n, yy -= y * y / n;
    tc -= t * c / n, ty -= t * y / n, cy -= c * y / n;
    double whole = tt * cc - tc * tc, slope = tt > 0 ? ty / tt : 0;
    struct fit found = {.shape = shape, .together = tt > 0 && cc > 0 ? tc / sqrt(tt * cc) : 0};
    if (has_load && whole > 1e-9 * tt * cc && tt * cy > tc * ty) {
        found.load = (tt * cy - tc * ty) / whole;
        slope = (cc * ty - tc * cy) / whole;
    }
    found.misfit = yy - slope * ty - found.load * cy;
    return found;
}

/* A bend counts if it explains much of what a straight line leaves. */
static struct fit fit_shapes(const struct leak_blocks *blocks, const double *values,
                             bool has_load) {
    struct fit best = fit(blocks, values, (struct shape){0}, has_load);
    double least = best.misfit * FITS;
    for (size_t i = 2; i < 2 * (blocks->count - LEAST_STEPS); i++) {
        struct shape shape = {i / 2, i % 2};
        struct fit found = fit(blocks, values, shape, has_load);
        if (found.misfit >= least)
            continue;
        best = found;
        least = found.misfit;
    }
    return best;
}

static struct fit fit_best(const struct leak_blocks *blocks, const double *values) {
    struct fit without = fit_shapes(blocks, values, false), with = fit_shapes(blocks, values, true);
    return with.misfit < FITS * without.misfit ? with : without;
}

/* How much more there is in the last sixth of the blocks than in the first. */
static double relative(const double *values, size_t count) {
    size_t part = count / 6;
    double first = 0, last = 0;
    for (size_t i = 0; i < part; i++) {
        first += values[i];
        last += values[count - 1 - i];
    }
    return first > 0 ? last / first - 1 : INFINITY;
}

/* ---- kinds ---- */

static bool levels_off(const struct leak_blocks *blocks, const double *values, size_t begin) {
    size_t split = begin + 1 + (blocks->count - begin - 1) * 2 / 3;
    struct growth before = measure(blocks, values, begin + 1, split, false);
    struct growth after = measure(blocks, values, split, blocks->count, false);
    return after.count > 0 && after.mean < LEAK_LEVEL * before.mean;
}

/* The spans that are tested, in twelfths of the blocks. */
static const struct span {
    size_t first, end;
} spans[] = {{0, 12}, {3, 12}, {6, 12}, {0, 4}, {0, 8}};
#define SPANS    (sizeof spans / sizeof *spans)
#define SUFFIXES 3 /* the first of them last until the end */

/* The span with the surest growth; NULL: there is none. */
static const struct span *find_growth(const struct leak_blocks *blocks, const double *values,
                                      size_t tried) {
    const struct span *surest = NULL;
    double least = LEAK_CHANCE / SPANS;
    for (size_t i = 0; i < tried; i++) {
        double tail = tail_of(measure(blocks, values, blocks->count * spans[i].first / 12 + 1,
                                      blocks->count * spans[i].end / 12, i >= SUFFIXES));
        if (tail >= least)
            continue;
        least = tail;
        surest = &spans[i];
    }
    return surest;
}

static double sum_of(struct growth growth) {
    return growth.mean * (double)growth.count;
}

static enum leak_kind choose(const struct leak_blocks *blocks, const double *values,
                             const double *own, const struct fit *fit, size_t begin) {
    size_t count = blocks->count;
    const struct span *span = find_growth(blocks, own, SPANS);
    bool is_proper = relative(values, count) < PROPER * relative(blocks->traffic, count);
    double all = sum_of(measure(blocks, values, begin + 1, count, false));
    if (!span || (fit->together > TOGETHER && is_proper) ||
        sum_of(measure(blocks, own, begin + 1, count, false)) < EXPLAINED * all)
        return LEAK_FOLLOWS_TRAFFIC;
    if (span >= spans + SUFFIXES || levels_off(blocks, own, begin))
        return LEAK_LEVELS_OFF;
    return LEAK_GROWS;
}

/* The sum of the steps that count. */
static void join(const struct leak_blocks *blocks, const double *values, double *joined) {
    joined[0] = values[0];
    for (size_t i = 1; i < blocks->count; i++)
        joined[i] = joined[i - 1] + (blocks->is_changed[i] ? 0 : values[i] - values[i - 1]);
}

struct leak_verdict leak_judge(const struct leak_blocks *blocks, const double *values) {
    struct leak_verdict verdict = {0};
    double joined[LEAK_MAX_BLOCKS], own[LEAK_MAX_BLOCKS];
    size_t count = blocks->count;
    if (count < LEAK_LEAST_BLOCKS || count > LEAK_MAX_BLOCKS)
        return verdict;
    join(blocks, values, joined);
    if (!find_growth(blocks, joined, SPANS))
        return verdict;
    struct fit best = fit_best(blocks, joined);
    size_t begin = best.shape.ends ? 0 : best.shape.bend;
    struct growth growth = measure(blocks, joined, begin + 1, count, false);
    if (growth.count < LEAST_STEPS || sum_of(growth) < LEAK_LEAST_SHARE * blocks->whole)
        return verdict;
    for (size_t i = 0; i < count; i++)
        own[i] = joined[i] - best.load * blocks->traffic[i];
    verdict.kind = choose(blocks, joined, own, &best, begin);
    if (verdict.kind != LEAK_FOLLOWS_TRAFFIC)
        growth = measure(blocks, own, begin + 1, count, false);
    double half = verdict_quantile(0.95, growth.degrees) * growth.deviation;
    verdict.since = begin + 1;
    verdict.rate = growth.mean;
    verdict.low = growth.mean - half;
    verdict.high = growth.mean + half;
    return verdict;
}
