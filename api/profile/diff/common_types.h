/* SPDX-License-Identifier: Apache-2.0
 *
 * The sample types that two profiles share. Thread safety: any thread; the profiles must not change
 * meanwhile. Internal to api/profile/diff. */
#ifndef SONDE_API_PROFILE_DIFF_COMMON_TYPES_H
#define SONDE_API_PROFILE_DIFF_COMMON_TYPES_H

#include "api/profile/profile.h"

struct common_types {
    const struct sonde_profile *base, *now; /* with the same types in the same order */
    struct sonde_profile *own_base, *own_now;
};

/* Leaves in both profiles the types that have the same name and unit, in the order of `now`, and
 * says in a comment of `now` which ones are missing. Profiles of the same types are not copied, and
 * must outlive the result. SONDE_INVALID_ARGUMENT if there is none; further errors:
 * SONDE_OUT_OF_MEMORY, SONDE_TOO_LARGE. The caller calls common_types_finish in any case. */
SONDE_MUST_USE sonde_err common_types_find(const struct sonde_profile *base,
                                           const struct sonde_profile *now,
                                           struct common_types *common, struct sonde_diag *diag);
void common_types_finish(struct common_types *common);

#endif
