/* SPDX-License-Identifier: Apache-2.0
 *
 * Off-CPU time in the form of Go's block and mutex profiles. Thread safety: any thread; the profile
 * must not change meanwhile. */
#ifndef SONDE_API_PROFILE_SELECT_CONTENTIONS_H
#define SONDE_API_PROFILE_SELECT_CONTENTIONS_H

#include "api/profile/profile.h"

/* contentions/count and delay/nanoseconds. */
extern const struct sonde_value_type sonde_contention_types[2];

/* A copy with the sample types contentions/count and delay/nanoseconds. `waits` has off_cpu, but
 * not how many waits there were: one contention is counted per period_ns of waiting, at least one
 * per sample (period_ns 0: one per sample). A comment says so. It is a snapshot at unix_ns: it has
 * no duration. The caller destroys *copy. SONDE_INVALID_ARGUMENT (no off_cpu), SONDE_OUT_OF_MEMORY,
 * SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err sonde_profile_contentions(const struct sonde_profile *waits,
                                                   int64_t period_ns, int64_t unix_ns,
                                                   struct sonde_profile **copy);

/* A copy with only the samples that wait for a lock: those with a function of a mutex or a
 * read-write lock near the leaf. Waits for conditions and semaphores are not among them. The caller
 * destroys *copy. SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err sonde_profile_only_locks(const struct sonde_profile *profile,
                                                  struct sonde_profile **copy);

#endif
