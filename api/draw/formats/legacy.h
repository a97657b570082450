/* SPDX-License-Identifier: Apache-2.0
 *
 * What gperftools' CPU and heap files have in common: stacks of bare addresses, and the mappings
 * that give them a meaning. Internal to api/draw. */
#ifndef SONDE_API_DRAW_FORMATS_LEGACY_H
#define SONDE_API_DRAW_FORMATS_LEGACY_H

#include "api/draw/draw.h"

/* A sample's addresses, leaf first, callers as return addresses: one behind the instruction, since
 * these files' readers move them back themselves. Notes such as "[truncated]" are no addresses and
 * are left out. Returns how many. */
uint32_t draw_addresses(const struct sonde_profile *profile, const struct sonde_sample *sample,
                        uint64_t addresses[SONDE_PROFILE_MAX_DEPTH]);
/* The mappings as the text of /proc/PID/maps. */
void draw_maps(const struct sonde_profile *profile, struct sonde_buf *out);

#endif
