/* SPDX-License-Identifier: Apache-2.0
 *
 * Renders the difference between two profiles. The service and `sonde diff` use the same function.
 * Thread safety: any thread; the profiles must not change meanwhile. */
#ifndef SONDE_API_DRAW_DIFF_H
#define SONDE_API_DRAW_DIFF_H

#include "api/draw/draw.h"
#include "api/profile/diff/time_parts.h"

struct sonde_draw_diff {
    const struct sonde_profile *base, *now;
    const char *base_name, *now_name; /* "capture 6", "before.pb.gz"; NULL: "before", "after" */
    bool growth_only;                 /* only stacks that grew, drawn like a single profile */
    bool normalise;                   /* first scale the new values to the base's total */
    double base_scale; /* the base's values were multiplied by it before; 0 = they were not */
    /* Of the same time, with the same scale. NULL: unknown, so samples count as independent. */
    const struct sonde_time_parts *base_parts, *now_parts;
};

/* Whether the format says how sure changes are, so that parts of the sides' time are needed. */
bool sonde_draw_judges(enum sonde_format format);

/* How the sides are compared: memory by amounts, unless it is scaled; everything else by shares of
 * the total. type: NULL = the default. */
enum verdict_measure sonde_draw_diff_measure(const struct sonde_draw_diff *diff, const char *type);

/* A flame graph draws the new profile, red where a function grew for certain, blue where it shrank,
 * grey where the change is within noise, and lists what is only in the base. Memory is compared by
 * bytes or objects, time by its share of the total. TEXT_TOP and MARKDOWN have intervals of the
 * changes, and CHANGES has everything that is known about them (api/draw/compare/comparison.h).
 * GRAFANA and FLAMEBEARER have the values of both profiles. Other formats have the differences of
 * the values. Profiles without numbers of samples have no intervals, and their noise is coloured.
 * Of the options only type, title, split_threads, gzip_level, max_rows and max_columns are used.
 * Errors: those of sonde_draw, and SONDE_INVALID_ARGUMENT if the profiles cannot be compared
 * (api/profile/diff/diff.h) or if options->function is set. */
SONDE_MUST_USE sonde_err sonde_draw_difference(const struct sonde_draw_diff *diff,
                                               enum sonde_format format,
                                               const struct sonde_draw_options *options,
                                               struct sonde_buf *out, struct sonde_diag *diag);

#endif
