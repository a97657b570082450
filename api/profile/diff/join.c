/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/diff/join.h"

#include <stdlib.h>
#include <string.h>

/* More cells than this in a comparison are not kept apart: each one costs 50 bytes in a tree, which
 * has some nodes per stack. */
#define MAX_CELLS (1u << 20)

/* Values of a side's functions without what they call, by block. */
struct series {
    size_t function_count, block_count;
    double *values; /* number: function * block_count + block */
    double *totals;
};

static void series_finish(struct series *series) {
    free(series->values);
    free(series->totals);
}

/* Code without a name counts as a function for each of its addresses. */
static size_t leaf_of(const struct sonde_profile *both, uint32_t sample_number) {
    struct sonde_sample sample = sonde_profile_sample(both, sample_number);
    if (sample.location_count == 0)
        return 0;
    const struct sonde_location *location = sonde_profile_location(both, sample.locations[0]);
    return location->line_count ? location->lines[0].function
                                : sonde_profile_function_count(both) + 1 + sample.locations[0];
}

static sonde_err sum_series(const struct sonde_blocks *blocks, int side, struct series *series) {
    size_t first = side ? blocks->counts[0] : 0, count = blocks->counts[side];
    *series = (struct series){.function_count = sonde_profile_function_count(blocks->both) +
                                                sonde_profile_location_count(blocks->both) + 2,
                              .block_count = count};
    series->values = calloc(series->function_count * count, sizeof *series->values);
    series->totals = calloc(count, sizeof *series->totals);
    if (!series->values || !series->totals)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < blocks->value_count; i++) {
        const struct sonde_block_value *value = &blocks->values[i];
        if (value->block < first || value->block - first >= count)
            continue;
        size_t function = leaf_of(blocks->both, value->sample), block = value->block - first;
        series->values[function * count + block] += value->cell.value;
        series->totals[block] += value->cell.value;
    }
    return SONDE_OK;
}

/* The mean correlation of what neighbouring blocks have beyond the function's share. Functions
 * count as much as they vary. Independent blocks have -1 / count, which is added. */
static double correlation_of(const struct series *series) {
    size_t count = series->block_count;
    double whole = 0, products = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        whole += series->totals[i];
    for (size_t function = 0; function < series->function_count; function++) {
        const double *values = &series->values[function * count];
        double sum = 0, last = 0;
        for (size_t i = 0; i < count; i++)
            sum += values[i];
        for (size_t i = 0; i < count && sum > 0; i++) {
            double rest = values[i] - sum / whole * series->totals[i];
            products += last * rest;
            squares += rest * rest;
            last = rest;
        }
    }
    return squares > 0 ? products / squares + 1 / (double)count : 0;
}

/* Joins the blocks of a side in pairs. An odd one joins the last pair. */
static void join_pairs(struct sonde_blocks *blocks, int side) {
    size_t first = side ? blocks->counts[0] : 0, old = blocks->counts[side], count = old / 2;
    double *exposures = &blocks->exposures[first];
    size_t after = blocks->counts[0] + blocks->counts[1] - first - old;
    for (size_t i = 0; i < blocks->value_count; i++) {
        uint32_t *block = &blocks->values[i].block;
        size_t pair = (*block - first) / 2;
        if (*block >= first + old)
            *block -= (uint32_t)(old - count);
        else if (*block >= first)
            *block = (uint32_t)(first + (pair < count ? pair : count - 1));
    }
    for (size_t i = 0; i < old; i++) {
        size_t pair = i / 2 < count ? i / 2 : count - 1;
        exposures[pair] = i % 2 || pair < i / 2 ? exposures[pair] + exposures[i] : exposures[i];
    }
    memmove(exposures + count, exposures + old, after * sizeof *exposures);
    blocks->counts[side] = count;
}

static sonde_err join_side(struct sonde_blocks *blocks, int side) {
    struct series series;
    bool is_correlated = true;
    sonde_err err = SONDE_OK;
    while (is_correlated && !err) {
        err = sum_series(blocks, side, &series);
        is_correlated = !err && correlation_of(&series) > BLOCKS_RESEMBLES;
        series_finish(&series);
        if (is_correlated && blocks->counts[side] / 2 < BLOCKS_LEAST) {
            blocks->is_correlated = true;
            break;
        }
        if (is_correlated)
            join_pairs(blocks, side);
    }
    return err;
}

sonde_err blocks_join(struct sonde_blocks *blocks, const bool is_in_time[2]) {
    size_t stacks = sonde_profile_sample_count(blocks->both);
    sonde_err err = SONDE_OK;
    for (int side = 0; side < 2 && !err; side++) {
        if (!is_in_time[side])
            continue;
        while (blocks->counts[side] > 1 && blocks->counts[side] * stacks > MAX_CELLS)
            join_pairs(blocks, side);
        if (blocks->counts[side] > 1)
            err = join_side(blocks, side);
    }
    return err;
}
