/* SPDX-License-Identifier: Apache-2.0
 *
 * What the renderers have in common: their signature, and how numbers look. Internal to api/draw.
 */
#ifndef SONDE_API_DRAW_RENDER_H
#define SONDE_API_DRAW_RENDER_H

#include "api/draw/draw.h"

typedef sonde_err draw_renderer(const struct sonde_profile *profile,
                                const struct sonde_draw_options *options, struct sonde_buf *out,
                                struct sonde_diag *diag);

draw_renderer draw_pprof, draw_flamegraph, draw_callgraph, draw_collapsed, draw_speedscope,
    draw_top, draw_legacy_cpu, draw_legacy_heap, draw_heapsnapshot, draw_heapprofile;

/* "1,234", "1.20 s", "3.4 MiB": a value with its unit, for people. */
void draw_value(struct sonde_buf *out, int64_t value, const char *unit);
/* The same as a word of its own: "1234", "1.20s", "3.4MB", as pprof's tables have it. */
void draw_short_value(struct sonde_buf *out, int64_t value, const char *unit);
/* One unit for a column: the largest in which its smallest value is not lost beside the largest. */
struct draw_unit {
    double divisor;
    const char *word; /* "" = as it is */
};
struct draw_unit draw_column_unit(int64_t smallest, int64_t largest, const char *unit);
void draw_in_unit(struct sonde_buf *out, int64_t value, const struct draw_unit *unit);
void draw_grouped(struct sonde_buf *out, int64_t value); /* 1,234,567 */
/* part of whole in percent; 0 when there is no whole. */
double draw_percent(int64_t part, int64_t whole);

/* Text for XML: markup escaped, what XML forbids and what turns the direction of writing replaced.
 * At most max_chars characters, then "…"; 0 = all. */
void draw_xml(struct sonde_buf *out, const char *text, size_t max_chars);
/* A JSON string with its quotes. */
void draw_json(struct sonde_buf *out, const char *text);
size_t draw_text_width(const char *text); /* in characters */

#endif
