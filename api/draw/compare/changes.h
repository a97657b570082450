/* SPDX-License-Identifier: Apache-2.0
 *
 * A comparison as text. Internal to api/draw. Thread safety: any thread. */
#ifndef SONDE_API_DRAW_COMPARE_CHANGES_H
#define SONDE_API_DRAW_COMPARE_CHANGES_H

#include "api/draw/compare/comparison.h"

/* "+3.1 % ± 0.6", a change in percent of the whole; without ± if the interval is unknown. */
void draw_put_percent_change(struct sonde_buf *out, const struct verdict_change *change,
                             double whole);
/* " ~" for noise, " ?" for too few samples, otherwise "". */
const char *draw_verdict_mark(const struct sonde_comparison *comparison,
                              const struct verdict_change *change);
struct draw_doubts {
    bool has_verdicts, is_memory;
    bool is_correlated; /* as in sonde_blocks */
    double samples[2];  /* on each side */
    double least_share_change;
};
/* Appends why verdicts are missing, how large changes must be to be seen if samples are few, and
 * whether intervals are too narrow; nothing otherwise. */
void draw_put_doubts(struct sonde_buf *out, const struct draw_doubts *doubts);

/* Whether the growth of a function may be noise. False if it is not known. */
bool draw_is_noise(const struct sonde_draw_comparison *sides, const char *name, const char *module);

/* The table of functions, at most options->max_rows. The head is the caller's. */
void draw_changes_table(const struct sonde_comparison *comparison,
                        const struct sonde_draw_options *options, struct sonde_buf *out);
/* Everything, as JSON. Numbers that are not known are null. */
void draw_changes_json(const struct sonde_comparison *comparison,
                       const struct sonde_draw_comparison *sides, struct sonde_buf *out);

#endif
