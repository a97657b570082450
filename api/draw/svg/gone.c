/* SPDX-License-Identifier: Apache-2.0
 *
 * What is only in the base of a difference has no width in the picture of the new profile, so it is
 * listed below: the topmost frames that are gone, those of the same function together. */
#include "api/draw/svg/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CALLERS    4
#define NAME_CHARS 90
#define ROW        17
#define VALUE_X    28
#define NAME_X     170

/* By frame. */
struct gone {
    uint32_t frame, largest; /* node */
    uint32_t places;
    int64_t value;
};

static int by_value(const void *a, const void *b) {
    const struct gone *x = a, *y = b;
    if (x->value != y->value)
        return x->value > y->value ? -1 : 1;
    return x->frame < y->frame ? -1 : 1;
}

static bool is_gone(const struct draw_tree *tree, const struct draw_node *node) {
    return node->total <= 0 && node->base > 0 &&
           (node->parent == DRAW_TREE_ROOT || draw_tree_node(tree, node->parent)->total > 0);
}

/* Against a side without samples, everything is gone. */
static bool is_noise(const struct verdict_change *changes, uint32_t node) {
    return changes && isfinite(changes[node].high) && changes[node].verdict != VERDICT_LESS;
}

/* Returns the number of frames, the largest first; counts the places that are within noise. */
static size_t collect(const struct draw_tree *tree, const struct verdict_change *changes,
                      struct gone *gone, struct gone *noise) {
    size_t count = 0;
    for (uint32_t i = 1; i < tree->nodes.count; i++) {
        const struct draw_node *node = draw_tree_node(tree, i);
        if (!is_gone(tree, node))
            continue;
        struct gone *at = is_noise(changes, i) ? noise : &gone[node->frame];
        if (!at->places || node->base > draw_tree_node(tree, at->largest)->base)
            at->largest = i;
        at->frame = node->frame;
        at->places++;
        at->value = draw_add(at->value, node->base);
    }
    for (uint32_t i = 0; i < tree->frames.count; i++)
        if (gone[i].places)
            gone[count++] = gone[i];
    qsort(gone, count, sizeof *gone, by_value);
    return count;
}

static void put_share(struct sonde_buf *out, const struct draw_page *page,
                      const struct draw_tree *tree, int64_t value) {
    draw_value(out, value, page->type.unit);
    sonde_buf_printf(out, " (%.1f %%)", draw_percent(value, tree->base));
}

/* "← handle ← main" */
static void put_callers(struct sonde_buf *out, const struct draw_tree *tree,
                        const struct gone *gone) {
    uint32_t at = draw_tree_node(tree, gone->largest)->parent, count = 0;
    for (; at != DRAW_TREE_ROOT && count < CALLERS; count++) {
        sonde_buf_printf(out, "%s← ", count ? " " : "");
        draw_xml(out, draw_tree_shown(tree, at), NAME_CHARS / 2);
        at = draw_tree_node(tree, at)->parent;
    }
    if (at != DRAW_TREE_ROOT)
        sonde_buf_puts(out, " ← …");
    if (gone->places > 1)
        sonde_buf_printf(out, " and %u other places", gone->places - 1);
}

static void add_row(struct draw_page *page, const struct draw_tree *tree, const struct gone *gone) {
    struct draw_row *row = &page->rows[page->row_count++];
    put_share(&row->value, page, tree, gone->value);
    draw_xml(&row->name, draw_tree_frame(tree, gone->frame)->shown, NAME_CHARS);
    put_callers(&row->path, tree, gone);
}

static void add_noise(struct draw_page *page, const struct draw_tree *tree,
                      const struct gone *noise) {
    struct draw_row *row = &page->rows[page->row_count++];
    put_share(&row->value, page, tree, noise->value);
    sonde_buf_printf(&row->name, "%u %s within noise", noise->places,
                     noise->places == 1 ? "place" : "places");
    row->is_noise = true;
}

static void add_rest(struct draw_page *page, const struct draw_tree *tree, const struct gone *gone,
                     size_t count) {
    struct draw_row *row = &page->rows[page->row_count++];
    int64_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum = draw_add(sum, gone[i].value);
    put_share(&row->value, page, tree, sum);
    sonde_buf_printf(&row->name, "%zu more", count);
}

sonde_err draw_page_gone(struct draw_page *page, const struct draw_tree *tree,
                         const struct verdict_change *changes) {
    struct gone *gone = calloc(tree->frames.count + 1, sizeof *gone), noise = {0};
    if (!gone)
        return SONDE_OUT_OF_MEMORY;
    size_t count = collect(tree, changes, gone, &noise);
    size_t rows = noise.places ? DRAW_MAX_ROWS - 1 : DRAW_MAX_ROWS;
    size_t shown = count > rows ? rows - 1 : count;
    for (size_t i = 0; i < shown; i++)
        add_row(page, tree, &gone[i]);
    if (count > shown)
        add_rest(page, tree, gone + shown, count - shown);
    if (noise.places)
        add_noise(page, tree, &noise);
    free(gone);
    return SONDE_OK;
}

#define HEADING "Only in the base, so without a width above (shares are of the base)"

int draw_gone_height(const struct draw_page *page) {
    return page->row_count ? ROW * ((int)page->row_count + 2) : 0;
}

static const char *colour_of(const struct draw_row *row) {
    return row->is_noise ? "W0" : "BD";
}

void draw_gone_put_static(const struct draw_page *page) {
    struct sonde_buf *out = page->out;
    int y = page->bottom + 2 * ROW - 4;
    if (page->row_count == 0)
        return;
    sonde_buf_printf(
        out, "<g class=\"static\"><text class=\"gone\" x=\"%d\" y=\"%d\">" HEADING "</text>\n",
        DRAW_SIDE, y);
    for (size_t i = 0; i < page->row_count; i++) {
        const struct draw_row *row = &page->rows[i];
        y += ROW;
        sonde_buf_printf(out, "<path class=\"%s\" d=\"M%d %dh10v10h-10z\"/>", colour_of(row),
                         DRAW_SIDE, y - 10);
        sonde_buf_printf(out, "<text class=\"sub\" x=\"%d\" y=\"%d\">%s</text>", VALUE_X, y,
                         sonde_buf_slice(&row->value).data);
        sonde_buf_printf(
            out,
            "<text class=\"gone\" x=\"%d\" y=\"%d\">%s <tspan class=\"sub\">%s</tspan></text>\n",
            NAME_X, y, sonde_buf_slice(&row->name).data, sonde_buf_slice(&row->path).data);
    }
    sonde_buf_puts(out, "</g>\n");
}

/* The same as HTML, which wraps to any width. */
void draw_gone_put_live(const struct draw_page *page) {
    struct sonde_buf *out = page->out;
    if (page->row_count == 0)
        return;
    sonde_buf_printf(
        out,
        "<foreignObject class=\"head after\" x=\"%d\" y=\"0\" width=\"%d\" height=\"%d\">"
        "<div xmlns=\"http://www.w3.org/1999/xhtml\" class=\"list\">\n<p>" HEADING "</p>\n",
        DRAW_SIDE, page->width - 2 * DRAW_SIDE, draw_gone_height(page));
    for (size_t i = 0; i < page->row_count; i++) {
        const struct draw_row *row = &page->rows[i];
        sonde_buf_printf(
            out,
            "<p><svg xmlns=\"http://www.w3.org/2000/svg\" class=\"dot\">"
            "<path class=\"%s\" d=\"M0 0h10v10h-10z\"/></svg><i>%s</i> %s <i>%s</i></p>\n",
            colour_of(row), sonde_buf_slice(&row->value).data, sonde_buf_slice(&row->name).data,
            sonde_buf_slice(&row->path).data);
    }
    sonde_buf_puts(out, "</div></foreignObject>\n");
}
