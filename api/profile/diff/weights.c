/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/diff/weights.h"

#include <math.h>
#include <string.h>

/* The type that counts samples, which time is beside. */
static size_t find_counts(const struct sonde_profile *profile) {
    size_t index = sonde_profile_find_type(profile, "samples");
    if (index != SONDE_PROFILE_NO_TYPE &&
        strcmp(sonde_profile_type(profile, index).unit, "count") == 0)
        return index;
    return SONDE_PROFILE_NO_TYPE;
}

/* Whether the values are estimates of allocations that no other profile was estimated from. */
static bool is_of_allocations(const struct sonde_profile *profile,
                              const struct sonde_memory_pair *pair, size_t type_index) {
    struct sonde_memory_types types;
    bool has_heap =
        sonde_memory_types(profile, &types) && types.inuse_space != SONDE_PROFILE_NO_TYPE;
    return !has_heap && pair->objects != SONDE_PROFILE_NO_TYPE &&
           (type_index == pair->space || type_index == pair->objects);
}

bool profile_weights_find(struct profile_weights *weights, const struct sonde_profile *profile,
                          size_t type_index) {
    *weights = (struct profile_weights){.type = type_index, .count_type = SONDE_PROFILE_NO_TYPE};
    if (sonde_memory_pair(profile, type_index, &weights->memory)) {
        weights->is_memory = is_of_allocations(profile, &weights->memory, type_index);
        return weights->is_memory;
    }
    weights->count_type = find_counts(profile);
    return weights->count_type != SONDE_PROFILE_NO_TYPE;
}

static double positive(int64_t value) {
    return value > 0 ? (double)value : 0;
}

/* The probability p of an object of the mean size. */
static double probability(const struct sonde_memory_pair *pair, const struct sonde_sample *sample) {
    double objects = positive(sample->values[pair->objects]);
    double bytes = positive(sample->values[pair->space]);
    return objects > 0 ? sonde_memory_samples(objects, bytes, pair->period) / objects : 1;
}

struct verdict_cell profile_weights_cell(const struct profile_weights *weights,
                                         const struct sonde_sample *sample, double scale) {
    struct verdict_cell cell = {.value = positive(sample->values[weights->type])};
    double variance = 1;
    if (weights->is_memory) {
        cell.samples = sonde_memory_sampled(&weights->memory, sample) / scale;
        variance = 1 - probability(&weights->memory, sample);
    } else if (weights->count_type != SONDE_PROFILE_NO_TYPE) {
        cell.samples = positive(sample->values[weights->count_type]) / scale;
    }
    if (cell.samples > 0)
        cell.squares = cell.value * cell.value / cell.samples * variance;
    return cell;
}
