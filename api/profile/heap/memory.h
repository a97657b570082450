/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory profiles: their sample types, the accuracy of their estimates, and the allocator's own
 * frames.
 *
 * A sampler with the mean distance R between samples takes an allocation of the size m with the
 * probability p = 1 - exp(-m / R). So an estimate of n objects is based on about n * p samples.
 * Thread safety: any thread; the profile must not change meanwhile. */
#ifndef SONDE_API_PROFILE_HEAP_MEMORY_H
#define SONDE_API_PROFILE_HEAP_MEMORY_H

#include "api/profile/profile.h"

/* Indexes of sample types; SONDE_PROFILE_NO_TYPE = not in the profile. Older writers call the inuse
 * types "space" and "objects". */
struct sonde_memory_types {
    size_t alloc_objects, alloc_space, inuse_objects, inuse_space;
};

/* False if the profile does not measure memory. types may be NULL. */
bool sonde_memory_types(const struct sonde_profile *profile, struct sonde_memory_types *types);

/* R, in bytes; 1 if every allocation was sampled or the profile does not have it. */
double sonde_memory_period(const struct sonde_profile *profile);
/* n * p: the number of samples that an estimate of objects and bytes is based on, if all objects
 * have the same size. */
double sonde_memory_samples(double objects, double bytes, double period);

/* The two sample types of the same kind of memory, and R. */
struct sonde_memory_pair {
    size_t space, objects; /* objects may be SONDE_PROFILE_NO_TYPE */
    double period;
    bool is_counted; /* sonde_sample.sampled counts the samples of this pair */
};

/* The pair that the type at type_index belongs to; otherwise the inuse pair, otherwise the alloc
 * pair. False if the profile does not measure memory. */
bool sonde_memory_pair(const struct sonde_profile *profile, size_t type_index,
                       struct sonde_memory_pair *pair);
/* The number of samples that the values of one sample are based on: as counted, otherwise n * p,
 * which is too high if sizes are mixed. Not negative. */
double sonde_memory_sampled(const struct sonde_memory_pair *pair,
                            const struct sonde_sample *sample);
/* p for an object of the mean size of that sample's: the values' variance is (1 - p) times their
 * square per sample. */
double sonde_memory_probability(const struct sonde_memory_pair *pair,
                                const struct sonde_sample *sample);

/* How much of a location belongs to an allocator: the number of its innermost lines, or
 * SONDE_MEMORY_WHOLE if all of it does. The rest is the function into which the allocator's code
 * was inlined. */
#define SONDE_MEMORY_WHOLE UINT32_MAX
typedef uint32_t sonde_memory_own_lines(void *context, const struct sonde_profile *profile,
                                        const struct sonde_location *location);
/* Decides by the module: libjemalloc*, libtcmalloc*, libmimalloc*, libsonde*. */
sonde_memory_own_lines sonde_memory_of_library;
/* Decides by the module and by the names of functions (allocator_names.h). context: a bool, whether
 * the allocator is linked into the program. */
sonde_memory_own_lines sonde_memory_of_allocator;

/* Creates a copy whose stacks end in the code that called the allocator: what own_lines counts is
 * removed from the leaf, and stacks that are equal then are merged. A stack that becomes empty is
 * "[allocator]", so the totals stay the same. The caller destroys *trimmed, which is NULL on
 * failure. Errors: SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err sonde_memory_trim(const struct sonde_profile *profile,
                                           sonde_memory_own_lines *own_lines, void *context,
                                           struct sonde_profile **trimmed, struct sonde_diag *diag);

#endif
