/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/accuracy.h"
#include "api/draw/compare/evidence.h"
#include "api/draw/render.h"
#include "api/profile/diff/weights.h"
#include "api/profile/heap/memory.h"
#include "api/profile/verdict/interval.h"

#include <math.h>
#include <stdlib.h>

#define LARGEST_COUNT 9e15
#define DOUBT         0.1
#define LEAST_POINTS  1

/* How the samples of a profile are counted. */
struct counting {
    size_t type;
    bool is_memory;
    struct sonde_memory_pair pair;
    struct profile_weights weights;
};

/* False if the number of samples is unknown. */
static bool find_counting(struct counting *counting, const struct sonde_profile *profile,
                          size_t type_index) {
    counting->type = type_index;
    counting->is_memory = sonde_memory_pair(profile, type_index, &counting->pair);
    return counting->is_memory ? counting->pair.period > 1
                               : profile_weights_find(&counting->weights, profile, type_index);
}

static struct verdict_cell cell_of(const struct counting *counting,
                                   const struct sonde_sample *sample) {
    if (!counting->is_memory)
        return profile_weights_cell(&counting->weights, sample, 1);
    struct verdict_cell cell = {.value = (double)sample->values[counting->type],
                                .samples = sonde_memory_sampled(&counting->pair, sample)};
    if (cell.samples > 0)
        cell.squares = cell.value * cell.value / cell.samples *
                       (1 - sonde_memory_probability(&counting->pair, sample));
    return cell;
}

/* The sums over all samples. False if a value is negative, because it is a difference. */
static bool add_all(const struct counting *counting, const struct sonde_profile *profile,
                    struct verdict_cell *whole) {
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        struct verdict_cell cell = cell_of(counting, &sample);
        if (sample.values[counting->type] < 0)
            return false;
        verdict_cell_add(whole, &cell);
    }
    return whole->samples >= 0.5 && whole->samples <= LARGEST_COUNT && whole->value > 0;
}

/* ---- The sentence ---- */

static void put_count(struct sonde_buf *out, double samples) {
    int64_t count = (int64_t)(samples + 0.5);
    draw_grouped(out, count);
    sonde_buf_puts(out, count == 1 ? " sample" : " samples");
}

static void put_estimate(struct sonde_buf *out, const struct counting *counting,
                         const struct verdict_cell *whole) {
    double percent = 100 * VERDICT_Q95 * sqrt(whole->squares) / whole->value;
    sonde_buf_puts(out, "estimated from ");
    put_count(out, whole->samples);
    if (percent < 0.05)
        sonde_buf_puts(out, " (exact: allocations of that size are always sampled), one per ");
    else
        sonde_buf_printf(out, " (± %.1f %%), one per ", percent);
    draw_value(out, (int64_t)counting->pair.period, "bytes");
}

/* A function of half the total is the least exact one. If the values are numbers of samples,
 * readers know the total. */
static void put_shares(struct sonde_buf *out, const struct counting *counting,
                       const struct verdict_cell *whole) {
    double samples = whole->value * whole->value / whole->squares;
    double points = 100 * verdict_half_width(verdict_wilson(0.5, samples, VERDICT_Q95));
    if (points < LEAST_POINTS)
        return;
    if (counting->type != counting->weights.count_type) {
        put_count(out, whole->samples);
        sonde_buf_puts(out, ": ");
    }
    sonde_buf_printf(out, "shares are exact to about ± %.0f point%s", points,
                     points < 1.5 ? "" : "s");
}

void draw_put_accuracy(const struct sonde_profile *profile, size_t type_index,
                       struct sonde_buf *out) {
    struct counting counting;
    struct verdict_cell whole = {0};
    if (!find_counting(&counting, profile, type_index) || !add_all(&counting, profile, &whole))
        return;
    if (counting.is_memory)
        put_estimate(out, &counting, &whole);
    else if (whole.squares > 0)
        put_shares(out, &counting, &whole);
}

/* ---- Rows ---- */

static sonde_err sum_frames(struct draw_accuracy *accuracy, const struct counting *counting,
                            const struct sonde_profile *profile, const struct draw_tree *tree,
                            const uint32_t *leaves) {
    size_t count = sonde_profile_sample_count(profile);
    struct draw_evidence evidence = {0};
    struct sonde_blocks blocks = {.values = calloc(count + 1, sizeof *blocks.values),
                                  .value_count = count,
                                  .counts = {1, 0},
                                  .is_counted = true};
    sonde_err err = blocks.values ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count && !err; i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        blocks.values[i].sample = (uint32_t)i;
        blocks.values[i].cell = cell_of(counting, &sample);
    }
    if (!err)
        err = draw_evidence_init(&evidence, tree, leaves, &blocks);
    if (!err)
        err = draw_evidence_frames(&evidence, &accuracy->flat, &accuracy->cum);
    draw_evidence_finish(&evidence);
    free(blocks.values);
    return err;
}

sonde_err draw_accuracy_init(struct draw_accuracy *accuracy, const struct sonde_profile *profile,
                             size_t type_index, const struct draw_tree *tree,
                             const uint32_t *leaves) {
    struct counting counting;
    *accuracy = (struct draw_accuracy){0};
    if (!find_counting(&counting, profile, type_index) ||
        !add_all(&counting, profile, &accuracy->whole))
        return SONDE_OK;
    accuracy->is_known = true;
    accuracy->is_memory = counting.is_memory;
    return sum_frames(accuracy, &counting, profile, tree, leaves);
}

void draw_accuracy_finish(struct draw_accuracy *accuracy) {
    free(accuracy->flat);
    free(accuracy->cum);
}

/* The samples that a share is of, if all weighed the same. */
static double half_of_share(const struct verdict_cell *whole, double value) {
    double samples = whole->squares > 0 ? whole->value * whole->value / whole->squares : INFINITY;
    return whole->value *
           verdict_half_width(verdict_wilson(value / whole->value, samples, VERDICT_Q95));
}

double draw_accuracy_doubt(const struct draw_accuracy *accuracy, const struct verdict_cell *cell) {
    double half = accuracy->is_memory ? VERDICT_Q95 * sqrt(cell->squares)
                                      : half_of_share(&accuracy->whole, cell->value);
    return cell->value > 0 && half > DOUBT * cell->value ? half : 0;
}
