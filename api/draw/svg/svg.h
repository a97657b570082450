/* SPDX-License-Identifier: Apache-2.0
 *
 * The page around every SVG picture: background, title, subtitle, legend, controls and the script.
 * The picture is complete without the script, which enables the controls and redraws the picture to
 * the width of the window.
 *
 *     draw_page_init     lays out title, subtitle and legend; sets page.top
 *     draw_page_open     writes everything before the picture
 *     ...                the caller writes the picture, from page.top to page.bottom
 *     draw_page_close    writes everything after it
 *
 * Internal to api/draw. Thread safety: one thread at a time. */
#ifndef SONDE_API_DRAW_SVG_SVG_H
#define SONDE_API_DRAW_SVG_SVG_H

#include "api/draw/render.h"
#include "api/draw/tree.h"
#include "api/profile/verdict/verdict.h"

#define DRAW_SIDE      12 /* left and right margin; also in flamegraph.js */
#define DRAW_WIDTH     1200
#define DRAW_MAX_LINES 6
#define DRAW_MAX_KEYS  8
#define DRAW_MAX_ROWS  12
#define DRAW_CHAR      7.23 /* width of a character in a frame */

struct draw_key {
    char colour[3];
    struct sonde_buf text;
};

/* Of the list below the picture; texts are escaped. */
struct draw_row {
    struct sonde_buf value, name, path;
    bool is_noise;
};

struct draw_page {
    struct sonde_buf *out;
    struct sonde_buf title, subtitle;         /* a newline of the subtitle begins a paragraph */
    struct sonde_slice lines[DRAW_MAX_LINES]; /* the subtitle, wrapped */
    size_t line_count;
    struct draw_key keys[DRAW_MAX_KEYS];
    size_t key_count;
    struct draw_row rows[DRAW_MAX_ROWS];
    size_t row_count;
    struct sonde_value_type type;
    int64_t total;
    int width, top, bottom;
    int right;             /* width of a picture that the script scales; 0 = page width */
    struct sonde_buf note; /* below the picture */
};

void draw_page_init(struct draw_page *page, const struct sonde_profile *profile,
                    const struct sonde_draw_options *options, int64_t total, const char *title,
                    struct sonde_buf *out);
/* Adds an entry to the legend, unless it is full. Before draw_page_open. */
void draw_page_key(struct draw_page *page, const char *colour, const char *text, double percent);
/* Adds legend entries for the most expensive modules. After draw_tree_sum. */
SONDE_MUST_USE sonde_err draw_page_modules(struct draw_page *page, const struct draw_tree *tree,
                                           enum sonde_palette palette);
void draw_page_open(struct draw_page *page);
void draw_page_close(struct draw_page *page, bool flame);
void draw_page_finish(struct draw_page *page);
/* Lists what is only in the base of a difference. changes: of the nodes; NULL = they are unknown,
 * and nothing counts as noise. Before draw_page_open. */
SONDE_MUST_USE sonde_err draw_page_gone(struct draw_page *page, const struct draw_tree *tree,
                                        const struct verdict_change *changes);
/* The list, as SVG text and as HTML for the script; for draw_page_close. */
int draw_gone_height(const struct draw_page *page);
void draw_gone_put_static(const struct draw_page *page);
void draw_gone_put_live(const struct draw_page *page);
/* Writes a whole page that says "no samples" and why. */
void draw_page_empty(struct draw_page *page);

/* The colour class of a frame: a letter for its module and a digit for its name. */
void draw_colour(const struct draw_frame *frame, enum sonde_palette palette, char colour[3]);
/* The colour class of a frame in a difference: red = grew, blue = shrank. The values are shares of
 * each side's total, from 0 to 1. */
void draw_diff_colour(double share, double base_share, char colour[3]);
void draw_number(struct sonde_buf *out, double value); /* at most two decimals */
/* Ends the start tag of a function's element and begins its title: " data-s="SHOWN"><title>NAME".
 */
void draw_put_names(struct sonde_buf *out, const char *name, const char *shown);

#endif
