/* SPDX-License-Identifier: Apache-2.0
 *
 * The accuracy of memory profiles, as text. Internal to api/draw. */
#ifndef SONDE_API_DRAW_MEMORY_H
#define SONDE_API_DRAW_MEMORY_H

#include "api/draw/draw.h"

/* Appends "estimated from 3,527 samples (± 3.3 %), one per 64.00 KiB"; nothing if the profile is
 * not an estimate or is a difference. */
void draw_memory_estimate(const struct sonde_profile *profile, size_t type_index,
                          struct sonde_buf *out);

#endif
