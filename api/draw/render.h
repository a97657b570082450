/* SPDX-License-Identifier: Apache-2.0
 *
 * What the renderers share: their signature, and the formatting of numbers and text. Internal to
 * api/draw. */
#ifndef SONDE_API_DRAW_RENDER_H
#define SONDE_API_DRAW_RENDER_H

#include "api/draw/draw.h"

typedef sonde_err draw_renderer(const struct sonde_profile *profile,
                                const struct sonde_draw_options *options, struct sonde_buf *out,
                                struct sonde_diag *diag);

draw_renderer draw_pprof, draw_flamegraph, draw_callgraph, draw_collapsed, draw_speedscope,
    draw_top, draw_legacy_cpu, draw_legacy_heap, draw_heapsnapshot, draw_heapprofile, draw_firefox,
    draw_markdown, draw_grafana, draw_deepflow_tree, draw_deepflow_columnar, draw_flamebearer,
    draw_changes;

struct draw_tree;
struct draw_accuracy;
/* Appends the callers of options->function and what it calls. draw_tree_sum has filled the tree.
 * SONDE_NOT_FOUND if no function has that name, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err draw_calls(const struct draw_tree *tree,
                                    const struct draw_accuracy *accuracy,
                                    const struct sonde_profile *profile,
                                    const struct sonde_draw_options *options, struct sonde_buf *out,
                                    struct sonde_diag *diag);

/* The sample type for formats that show times: the chosen one, or the first that is a time if the
 * default is a number of samples. */
size_t draw_time_type(const struct sonde_profile *profile,
                      const struct sonde_draw_options *options);
/* The base name of the program; "" if the profile does not have it. */
const char *draw_program(const struct sonde_profile *profile);
/* The title, or the program if there is none; "" if neither is known. */
const char *draw_name(const struct sonde_profile *profile,
                      const struct sonde_draw_options *options);

/* "1,234", "1.20 s", "3.4 MiB": a value with its unit. */
void draw_value(struct sonde_buf *out, int64_t value, const char *unit);
/* The same without spaces, for tables: "1234", "1.20s", "3.40MiB". */
void draw_short_value(struct sonde_buf *out, int64_t value, const char *unit);
/* A unit for a column of values: the largest that does not round the smallest value to 0. */
struct draw_unit {
    double divisor;
    const char *word; /* "" = the value's own unit */
};
struct draw_unit draw_column_unit(int64_t smallest, int64_t largest, const char *unit);
void draw_in_unit(struct sonde_buf *out, int64_t value, const struct draw_unit *unit);
void draw_grouped(struct sonde_buf *out, int64_t value); /* 1,234,567 */
/* part of whole in percent; 0 if whole is 0. */
double draw_percent(int64_t part, int64_t whole);

/* Code points that XML 1.0 forbids, and those of sonde_utf8_is_control. */
bool draw_is_unfit(uint32_t code);
/* Appends text for XML: markup is escaped; characters that XML forbids or that change the writing
 * direction are replaced. Longer text is cut at max_chars characters and ends in "…"; 0 = no limit.
 */
void draw_xml(struct sonde_buf *out, const char *text, size_t max_chars);
/* Appends a quoted JSON string. */
void draw_json(struct sonde_buf *out, const char *text);
size_t draw_text_width(const char *text); /* in characters */

#endif
