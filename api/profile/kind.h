/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SONDE_API_PROFILE_KIND_H
#define SONDE_API_PROFILE_KIND_H

#include "api/profile/profile.h"

/* The kind of code at an address, guessed from the name of its mapping. Mapping 1 is the program.
 * Any thread. */
enum sonde_frame_kind sonde_profile_guess_kind(const struct sonde_profile *profile,
                                               uint32_t mapping_id, uint64_t address);

#endif
