/* SPDX-License-Identifier: Apache-2.0
 *
 * How sure a picture of memory is. Internal to api/draw. */
#ifndef SONDE_API_DRAW_MEMORY_H
#define SONDE_API_DRAW_MEMORY_H

#include "api/draw/draw.h"

/* "estimated from 3,527 samples (± 3.3 %), one per 64.00 KiB"; nothing for profiles that are no
 * estimates, and for differences. */
void draw_memory_estimate(const struct sonde_profile *profile, size_t type_index,
                          struct sonde_buf *out);

#endif
