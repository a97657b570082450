/* SPDX-License-Identifier: Apache-2.0
 *
 * Off-CPU time in the form of Go's block and mutex profiles. Thread safety: any thread; the profile
 * must not change meanwhile. */
#ifndef SONDE_API_PROFILE_SELECT_CONTENTIONS_H
#define SONDE_API_PROFILE_SELECT_CONTENTIONS_H

#include "api/profile/profile.h"

/* A copy with the sample types contentions/count and delay/nanoseconds. `waits` has off_cpu;
 * without a type "samples", one contention is counted per period_ns of waiting, at least one per
 * sample (period_ns 0: one per sample). It is a snapshot at unix_ns: it has no duration. The caller
 * destroys *copy. SONDE_INVALID_ARGUMENT (no off_cpu), SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err sonde_profile_contentions(const struct sonde_profile *waits,
                                                   int64_t period_ns, int64_t unix_ns,
                                                   struct sonde_profile **copy);

#endif
