/* SPDX-License-Identifier: Apache-2.0
 *
 * Renders the difference between two profiles. The service and `sonde diff` use the same function.
 * Thread safety: any thread; the profiles must not change meanwhile. */
#ifndef SONDE_API_DRAW_DIFF_H
#define SONDE_API_DRAW_DIFF_H

#include "api/draw/draw.h"

struct sonde_draw_diff {
    const struct sonde_profile *base, *now;
    const char *base_name, *now_name; /* "capture 6", "before.pb.gz"; NULL: "before", "after" */
    bool growth_only;                 /* only stacks that grew, drawn like a single profile */
    bool normalise;                   /* first scale the new values to the base's total */
};

/* A flame graph draws the new profile, red where a function grew and blue where it shrank, and
 * lists what is only in the base. Memory is compared by bytes or objects, time by its share of the
 * total. GRAFANA and FLAMEBEARER have the values of both profiles. Other formats have the
 * differences of the values. Of the options only type, title, split_threads and gzip_level are
 * used. Errors: those of sonde_draw, and SONDE_INVALID_ARGUMENT if the profiles cannot be compared
 * (api/profile/diff/diff.h). */
SONDE_MUST_USE sonde_err sonde_draw_difference(const struct sonde_draw_diff *diff,
                                               enum sonde_format format,
                                               const struct sonde_draw_options *options,
                                               struct sonde_buf *out, struct sonde_diag *diag);

#endif
