/* SPDX-License-Identifier: Apache-2.0
 *
 * What gperftools' CPU and heap formats share: stacks of addresses, and the memory mappings that
 * readers need to resolve them. Internal to api/draw. */
#ifndef SONDE_API_DRAW_FORMATS_LEGACY_H
#define SONDE_API_DRAW_FORMATS_LEGACY_H

#include "api/draw/draw.h"

/* Stores the addresses of a sample, leaf first, and returns their number. Callers are return
 * addresses, because readers of these formats decrement them. Notes such as "[truncated]" are left
 * out. */
uint32_t draw_addresses(const struct sonde_profile *profile, const struct sonde_sample *sample,
                        uint64_t addresses[SONDE_PROFILE_MAX_DEPTH]);
/* Appends the mappings in the format of /proc/PID/maps. */
void draw_maps(const struct sonde_profile *profile, struct sonde_buf *out);

#endif
