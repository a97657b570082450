/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether two profiles can be compared. Errors: SONDE_INVALID_ARGUMENT with a reason. Internal to
 * api/profile/diff. Thread safety: any thread. */
#ifndef SONDE_API_PROFILE_DIFF_CHECKS_H
#define SONDE_API_PROFILE_DIFF_CHECKS_H

#include "api/profile/profile.h"

/* Both were sampled by the same event. */
SONDE_MUST_USE sonde_err diff_check_events(const struct sonde_profile *base,
                                           const struct sonde_profile *now,
                                           struct sonde_diag *diag);
/* Both were sampled at the same rate, or do not depend on it. */
SONDE_MUST_USE sonde_err diff_check_rates(const struct sonde_profile *base,
                                          const struct sonde_profile *now, struct sonde_diag *diag);
/* The index of the type with that name; NULL = the default. */
SONDE_MUST_USE sonde_err diff_choose_type(const struct sonde_profile *profile, const char *type,
                                          size_t *index, struct sonde_diag *diag);
/* Whether the type is the one that is sampled. CPU time in nanoseconds does not depend on the rate,
 * but a number of samples does. */
bool diff_is_measure(const struct sonde_profile *profile, size_t type_index);

#endif
