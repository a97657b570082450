/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SONDE_API_PROFILE_SELECT_ONLY_PROCESS_H
#define SONDE_API_PROFILE_SELECT_ONLY_PROCESS_H

#include "api/profile/profile.h"

/* In profiles of several processes (TargetSelector.all) the process is the outermost frame. Returns
 * the function of that frame if it is the same in every sample; 0 = there is none, or several. Any
 * thread. */
uint32_t sonde_profile_only_process(const struct sonde_profile *profile);

#endif
