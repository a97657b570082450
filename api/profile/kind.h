/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SONDE_API_PROFILE_KIND_H
#define SONDE_API_PROFILE_KIND_H

#include "api/profile/profile.h"

/* Whose code lies at an address of a mapping, by what the mapping is called; mapping 1 is the main
 * one. Any thread. */
enum sonde_frame_kind sonde_profile_guess_kind(const struct sonde_profile *profile,
                                               uint32_t mapping_id, uint64_t address);

#endif
