/* SPDX-License-Identifier: Apache-2.0
 *
 * Which samples have a function on their stack, inlined or not. Thread safety: any thread; the
 * profile must not change meanwhile. */
#ifndef SONDE_API_PROFILE_SELECT_FIND_FUNCTION_H
#define SONDE_API_PROFILE_SELECT_FIND_FUNCTION_H

#include "api/profile/profile.h"

/* One element per sample, whether a function of its stack has a name that matches the pattern
 * (api/text/wildcard.h). From malloc; NULL when out of memory. */
bool *sonde_profile_find_function(const struct sonde_profile *profile, const char *pattern);

#endif
