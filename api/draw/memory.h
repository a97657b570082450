/* SPDX-License-Identifier: Apache-2.0
 *
 * What the renderers of memory ask first. Internal to api/draw. */
#ifndef SONDE_API_DRAW_MEMORY_H
#define SONDE_API_DRAW_MEMORY_H

#include "api/draw/draw.h"

/* The two sample types that belong together: how many, and how many bytes. */
struct draw_memory {
    size_t space, objects; /* objects: SONDE_PROFILE_NO_TYPE when the profile does not count them */
    double period;
};

/* The pair that the type at type_index is one of, else the one in use, else the allocated one.
 * False when the profile measures no memory. */
bool draw_memory_pair(const struct sonde_profile *profile, size_t type_index,
                      struct draw_memory *memory);

/* "estimated from 3,527 samples (± 3.3 %), one per 64.00 KiB"; nothing for profiles that are no
 * estimates, and for differences. */
void draw_memory_estimate(const struct sonde_profile *profile, size_t type_index,
                          struct sonde_buf *out);

#endif
