/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds a profile's locations by their addresses. The names of an address may differ between two
 * profiles of one build, because debug information arrived in between. Internal to api/profile. */
#ifndef SONDE_API_PROFILE_DIFF_MATCH_PLACES_H
#define SONDE_API_PROFILE_DIFF_MATCH_PLACES_H

#include "api/profile/profile.h"

struct match_place {
    uint64_t address;
    uint32_t mapping, location;
};

struct match_places {
    struct match_place *items; /* sorted by mapping and address */
    size_t count;
};

SONDE_MUST_USE sonde_err match_places_init(struct match_places *places,
                                           const struct sonde_profile *profile);
/* Zeroed memory is allowed. */
void match_places_finish(struct match_places *places);
/* The location at that address of the mapping; 0 if there is none. */
uint32_t match_places_find(const struct match_places *places, uint32_t mapping, uint64_t address);

#endif
