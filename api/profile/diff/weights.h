/* SPDX-License-Identifier: Apache-2.0
 *
 * How many samples a profile's values are the sum of, and how much these vary.
 *
 * Profiles store sums per stack. The samples of a stack count as equally heavy, so the sum of their
 * squared weights is too small for stacks whose samples differ, such as those of waits. An estimate
 * of allocations varies with which ones the sampler took: with the probability p of
 * api/profile/heap/memory.h, each one contributes (size / p)^2 * (1 - p). Allocations that were all
 * sampled are exact. Live heaps are not counted: two heaps of one process have the samples of all
 * objects in common that live in both, so their errors are not independent. Thread safety: any
 * thread. */
#ifndef SONDE_API_PROFILE_DIFF_WEIGHTS_H
#define SONDE_API_PROFILE_DIFF_WEIGHTS_H

#include "api/profile/heap/memory.h"
#include "api/profile/verdict/verdict.h"

struct profile_weights {
    size_t type, count_type; /* sample types; count_type SONDE_PROFILE_NO_TYPE = not counted */
    bool is_memory;
    struct sonde_memory_pair memory;
};

/* False: the number of samples is unknown, and cells have values only. */
bool profile_weights_find(struct profile_weights *weights, const struct sonde_profile *profile,
                          size_t type_index);
/* Of one stack, whose values were multiplied by `scale`. Negative values count as 0. */
struct verdict_cell profile_weights_cell(const struct profile_weights *weights,
                                         const struct sonde_sample *sample, double scale);

#endif
