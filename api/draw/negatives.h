/* SPDX-License-Identifier: Apache-2.0
 *
 * Profiles with negative values that are not drawn as a difference: those of `go tool pprof -base`,
 * or a file that `sonde diff` wrote. Internal to api/draw. Thread safety: any thread. */
#ifndef SONDE_API_DRAW_NEGATIVES_H
#define SONDE_API_DRAW_NEGATIVES_H

#include "api/draw/draw.h"

/* What shares are of: the sum of the values without their sign, as in pprof. */
int64_t draw_magnitude(const struct sonde_profile *profile, size_t type_index);
/* "3 stacks have negative values, counted as 0": what the format does with them. Appends nothing if
 * there are none, or if a comparison shows them. The type index is chosen. */
void draw_put_negatives(struct sonde_buf *out, const struct sonde_profile *profile,
                        enum sonde_format format, const struct sonde_draw_options *options);

#endif
