/* SPDX-License-Identifier: Apache-2.0
 *
 * The frame every picture stands in: paper, title, facts, legend, the tools that come alive with
 * the script, and at the end the one constant script. A picture is whole without it: the script
 * draws the same again to the window's width.
 *
 *     draw_page_init     what the page says, and from it page.top, where the picture starts
 *     draw_page_open     everything before the picture
 *     ...                the picture, from page.top to page.bottom
 *     draw_page_close    everything behind it
 *
 * Internal to api/draw. Thread safety: one thread at a time. */
#ifndef SONDE_API_DRAW_SVG_SVG_H
#define SONDE_API_DRAW_SVG_SVG_H

#include "api/draw/render.h"
#include "api/draw/tree.h"

#define DRAW_SIDE      12 /* margin left and right; the script knows it too */
#define DRAW_WIDTH     1200
#define DRAW_MAX_LINES 4
#define DRAW_MAX_KEYS  8
#define DRAW_CHAR      7.23 /* width of a character of the frames' font */

struct draw_key {
    char colour[3];
    struct sonde_buf text;
};

struct draw_page {
    struct sonde_buf *out;
    const char *title;
    struct sonde_buf facts;                   /* the subtitle's text */
    struct sonde_slice lines[DRAW_MAX_LINES]; /* the same, wrapped */
    size_t line_count;
    struct draw_key keys[DRAW_MAX_KEYS];
    size_t key_count;
    struct sonde_value_type type;
    int64_t total;
    int width, top, bottom;
    int right; /* width of a picture that is scaled to the window; the flame graph fills it instead
                */
    struct sonde_buf note; /* below the picture */
};

void draw_page_init(struct draw_page *page, const struct sonde_profile *profile,
                    const struct sonde_draw_options *options, int64_t total, const char *title,
                    struct sonde_buf *out);
/* One more entry of the legend; ignored when it is full. Before draw_page_open. */
void draw_page_key(struct draw_page *page, const char *colour, const char *text, double percent);
/* Legend entries for the modules that cost most; after draw_tree_sum. */
SONDE_MUST_USE sonde_err draw_page_modules(struct draw_page *page, const struct draw_tree *tree,
                                           enum sonde_palette palette);
void draw_page_open(struct draw_page *page);
void draw_page_close(struct draw_page *page, bool flame);
void draw_page_finish(struct draw_page *page);
/* A whole page that says "no samples" and why. */
void draw_page_empty(struct draw_page *page);

/* The colour class of a frame: a letter for its module, a digit for its name. */
void draw_colour(const struct draw_frame *frame, enum sonde_palette palette, char colour[3]);
/* The same for a difference: red grew, blue shrank; shares are of 1. */
void draw_diff_colour(double share, double base_share, char colour[3]);
void draw_number(struct sonde_buf *out, double value); /* two decimals at most */

#endif
