/* SPDX-License-Identifier: Apache-2.0
 *
 * What profiles of memory have beyond the model: sample types by their names, the sampling that the
 * values are estimates from, and the allocator's own frames at the leaf.
 *
 * A sampler that takes one allocation per R bytes on average sees one of mean size m with the
 * chance p = 1 - exp(-m / R); n objects of it were about n p samples. Thread safety: any thread;
 * the profile must not change meanwhile. */
#ifndef SONDE_API_PROFILE_MEMORY_H
#define SONDE_API_PROFILE_MEMORY_H

#include "api/profile/profile.h"

/* Indices of sample types, SONDE_PROFILE_NO_TYPE = not in the profile. "space" and "objects" of
 * older writers are the inuse ones. */
struct sonde_memory_types {
    size_t alloc_objects, alloc_space, inuse_objects, inuse_space;
};

/* False when the profile measures no memory. types may be NULL. */
bool sonde_memory_types(const struct sonde_profile *profile, struct sonde_memory_types *types);

/* R, mean bytes between samples; 1 when every allocation was taken or the profile does not say. */
double sonde_memory_period(const struct sonde_profile *profile);
/* How many samples an estimate of so many objects and bytes of one size rests on: n p. 0 for
 * nothing. */
double sonde_memory_samples(double objects, double bytes, double period);

/* The two sample types that belong together, and the period. */
struct sonde_memory_pair {
    size_t space, objects; /* objects: SONDE_PROFILE_NO_TYPE when the profile does not count them */
    double period;
    bool is_counted; /* sonde_sample.sampled is about this pair */
};

/* The pair that the type at type_index is one of, else the one in use, else the allocated one.
 * False when the profile measures no memory. */
bool sonde_memory_pair(const struct sonde_profile *profile, size_t type_index,
                       struct sonde_memory_pair *pair);
/* How many samples one sample's values rest on: as counted, else n p, which is too many where sizes
 * are mixed. Never below 0. */
double sonde_memory_sampled(const struct sonde_memory_pair *pair,
                            const struct sonde_sample *sample);
/* 95 % of estimates from so many samples are off by less than this share of the value
 * (1.96 / sqrt(samples)). INFINITY for none. Sum the samples of stacks before asking. */
double sonde_memory_relative_error(double samples);

/* Whether a location belongs to an allocator. */
typedef bool sonde_memory_is_allocator(void *context, const struct sonde_profile *profile,
                                       const struct sonde_location *location);
/* By the module: libjemalloc*, libtcmalloc*, libmimalloc*, libsonde*. An allocator that is linked
 * into the program needs a function of the caller's that knows its symbols. */
sonde_memory_is_allocator sonde_memory_in_allocator_module;

/* A new profile whose stacks end in the code that called the allocator: the leaf locations for
 * which is_allocator holds are left out, and stacks that are then equal are one. What holds nothing
 * else becomes "[allocator]". No value is lost. *trimmed is the caller's to destroy, NULL on
 * failure. SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err sonde_memory_trim(const struct sonde_profile *profile,
                                           sonde_memory_is_allocator *is_allocator, void *context,
                                           struct sonde_profile **trimmed, struct sonde_diag *diag);

#endif
