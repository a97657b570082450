/* SPDX-License-Identifier: Apache-2.0
 *
 * What changed between two profiles, stack by stack.
 *
 * Values can be subtracted when both count the same thing in the same measure: the sample types and
 * the period's type must be equal by name, and the periods must be equal too unless both profiles
 * are unbiased (sonde_profile_info), or only the sampled measure itself (cpu/nanoseconds) is looked
 * at. Anything else is SONDE_INVALID_ARGUMENT. Results are the
 * caller's to destroy, NULL on failure. Thread safety: any thread; the profiles must not change
 * meanwhile. */
#ifndef SONDE_API_PROFILE_DIFF_H
#define SONDE_API_PROFILE_DIFF_H

#include "api/profile/profile.h"

struct sonde_diff_options {
    bool normalise;   /* the new values are first scaled to the base's total, type by type */
    bool growth_only; /* only stacks whose value of the type grew */
    const char *type; /* the sample type that the result shows first; NULL: that of `now` */
};

/* New minus base, negatives kept, stacks that did not change left out: `go tool pprof -diff_base`.
 * Facts and comments are those of `now`. options may be NULL. */
SONDE_MUST_USE sonde_err sonde_profile_diff(const struct sonde_profile *base,
                                            const struct sonde_profile *now,
                                            const struct sonde_diff_options *options,
                                            struct sonde_profile **diff, struct sonde_diag *diag);

/* Both side by side for one sample type of that name (NULL: the default one): type 0 is the new
 * value, type 1 ("before") the base's. What SONDE_PALETTE_DIFF draws, with base_index 1. */
SONDE_MUST_USE sonde_err sonde_profile_compare(const struct sonde_profile *base,
                                               const struct sonde_profile *now, const char *type,
                                               struct sonde_profile **both,
                                               struct sonde_diag *diag);

#endif
