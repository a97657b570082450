/* SPDX-License-Identifier: Apache-2.0
 *
 * What changed between two profiles, in the form somebody asked for: the one door of the service
 * and of `sonde diff`. Thread safety: any thread; the profiles must not change meanwhile. */
#ifndef SONDE_API_DRAW_DIFF_H
#define SONDE_API_DRAW_DIFF_H

#include "api/draw/draw.h"

struct sonde_draw_diff {
    const struct sonde_profile *base, *now;
    bool growth_only; /* only what grew, drawn like a profile of its own */
    bool normalise;   /* the new values are first scaled to the base's total */
};

/* A flame graph shows the new profile, red where a function's share grew and blue where it shrank;
 * every other form holds the difference of the values. options->type, title, merge_threads and
 * gzip_level count, the rest follows from the profiles. SONDE_INVALID_ARGUMENT when the two cannot
 * be compared, or a format is not offered on what they measure. */
SONDE_MUST_USE sonde_err sonde_draw_difference(const struct sonde_draw_diff *diff,
                                               enum sonde_format format,
                                               const struct sonde_draw_options *options,
                                               struct sonde_buf *out, struct sonde_diag *diag);

#endif
