/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws the flame graph: one path element per frame, depth first, in a form that the script parses:
 *
 *     <path class="a1" d="M12 340h400v17H12z" data-v="TOTAL SELF" data-n="FOLDED">
 *     <title>name (33.3%)</title></path>
 *
 * The script derives the depth from y and the parent from the order. Frames that are too narrow are
 * merged into one grey frame "(n more)" beside their siblings, or if that is too narrow, too,
 * counted in data-n of their parent. */
#include "api/draw/compare/changes.h"
#include "api/draw/compare/evidence.h"
#include "api/draw/svg/svg.h"
#include "api/draw/title.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROW             18 /* also in flamegraph.js */
#define MAX_FRAMES      50000
#define DEFAULT_MINIMUM 0.0001

struct place {
    double x; /* 0 to 1; negative = not drawn */
    int64_t folded;
    uint32_t folded_count;
    uint32_t size; /* nodes in the subtree */
};

struct flamegraph {
    const struct draw_tree *tree;
    const struct sonde_draw_options *options;
    struct draw_page *page;
    struct place *places;
    double minimum; /* share of the total */
    uint32_t deepest;
    int64_t whole, base_whole; /* of a difference: what colours are shares of */
    /* Of a difference, by node; NULL = which changes are noise is unknown. */
    const struct verdict_change *changes;
    bool by_amount;
    bool *is_noise; /* of growth, by frame; NULL = unknown */
};

static double share(const struct flamegraph *flame, int64_t value) {
    return (double)value / (double)flame->tree->total;
}

static bool is_seen(const struct flamegraph *flame, const struct draw_node *node) {
    return node->total > 0 && share(flame, node->total) >= flame->minimum;
}

/* Raises the minimum until the picture has at most MAX_FRAMES frames. */
static void choose_minimum(struct flamegraph *flame) {
    const struct draw_tree *tree = flame->tree;
    flame->minimum =
        flame->options->minimum_share > 0 ? flame->options->minimum_share : DEFAULT_MINIMUM;
    for (;; flame->minimum *= 2) {
        uint32_t seen = 0;
        flame->deepest = 0;
        for (uint32_t i = 0; i < tree->nodes.count; i++) {
            const struct draw_node *node = draw_tree_node(tree, i);
            if (!is_seen(flame, node))
                continue;
            seen++;
            /* one more row for "(n more)" */
            uint32_t depth = node->depth + (node->first_child != DRAW_TREE_ROOT);
            flame->deepest = depth > flame->deepest ? depth : flame->deepest;
        }
        if (seen <= MAX_FRAMES)
            return;
    }
}

static void count_sizes(struct flamegraph *flame) {
    for (uint32_t i = flame->tree->nodes.count; i > 0; i--) {
        struct place *place = &flame->places[i - 1];
        place->x = -1;
        place->size++;
        if (i - 1 != DRAW_TREE_ROOT)
            flame->places[draw_tree_node(flame->tree, i - 1)->parent].size += place->size;
    }
    flame->places[DRAW_TREE_ROOT].x = 0;
}

static void put_frame(struct flamegraph *flame, const char *colour, double x, int64_t total,
                      int64_t self, uint32_t depth) {
    struct sonde_buf *out = flame->page->out;
    const double inner = DRAW_WIDTH - 2 * DRAW_SIDE;
    double left = DRAW_SIDE + x * inner, width = share(flame, total) * inner;
    sonde_buf_printf(out, "<path class=\"%s\" d=\"M", colour);
    draw_number(out, left);
    sonde_buf_printf(out, " %dh", flame->page->bottom - ROW * (int)(depth + 1));
    draw_number(out, width > 1.2 ? width - 0.6 : width);
    sonde_buf_printf(out, "v%dH", ROW - 1);
    draw_number(out, left);
    sonde_buf_printf(out, self ? "z\" data-v=\"%lld %lld\"" : "z\" data-v=\"%lld\"",
                     (long long)total, (long long)self);
}

static void put_name(struct flamegraph *flame, const char *name, double x, int64_t total,
                     uint32_t depth) {
    struct sonde_buf *out = flame->page->out;
    const double inner = DRAW_WIDTH - 2 * DRAW_SIDE;
    sonde_buf_puts(out, "><title>");
    draw_xml(out, name, 0);
    sonde_buf_printf(out, " (%.2f%%)</title></path>", 100 * share(flame, total));
    double width_chars = (share(flame, total) * inner - 6) / DRAW_CHAR;
    if (width_chars >= 3) {
        sonde_buf_puts(out, "<text x=\"");
        draw_number(out, DRAW_SIDE + x * inner + 3);
        sonde_buf_printf(out, "\" y=\"%d\">", flame->page->bottom - ROW * (int)(depth + 1) + 13);
        draw_xml(out, name, (size_t)width_chars);
        sonde_buf_puts(out, "</text>");
    }
    sonde_buf_putc(out, '\n');
}

/* The nearer end of the interval to 0: what is certain of a change. */
static double certain_change(const struct verdict_change *change) {
    return change->verdict == VERDICT_MORE   ? change->low
           : change->verdict == VERDICT_LESS ? change->high
                                             : 0;
}

/* Colours show what is certain of a change, so they fade with its evidence. */
static void diff_colour_of(const struct flamegraph *flame, uint32_t number, char colour[3]) {
    const struct draw_node *node = draw_tree_node(flame->tree, number);
    double base = draw_percent(node->base, flame->base_whole) / 100;
    double now = draw_percent(node->total, flame->whole) / 100;
    if (flame->changes) {
        double whole = flame->by_amount ? (double)flame->whole : 1;
        now = base + certain_change(&flame->changes[number]) / whole;
    }
    draw_diff_colour(now > 0 ? now : 0, base, colour);
}

static void colour_of(const struct flamegraph *flame, uint32_t number, char colour[3]) {
    const struct draw_node *node = draw_tree_node(flame->tree, number);
    if (flame->options->palette == SONDE_PALETTE_DIFF)
        diff_colour_of(flame, number, colour);
    else if (flame->is_noise && flame->is_noise[node->frame])
        memcpy(colour, "W0", 3);
    else
        draw_colour(draw_tree_frame(flame->tree, node->frame), flame->options->palette, colour);
}

/* Places the children from left to right and merges those that are too narrow. */
static void place_children(struct flamegraph *flame, const struct draw_node *node,
                           struct place *place) {
    double x = place->x;
    for (uint32_t at = node->first_child; at != DRAW_TREE_ROOT;) {
        const struct draw_node *child = draw_tree_node(flame->tree, at);
        if (is_seen(flame, child)) {
            flame->places[at].x = x;
            x += share(flame, child->total);
        } else if (child->total > 0) {
            place->folded = draw_add(place->folded, child->total);
            place->folded_count += flame->places[at].size;
        }
        at = child->next_sibling;
    }
}

/* "; +3.1 % ± 0.6, more" */
static void put_verdict(const struct flamegraph *flame, uint32_t number) {
    struct sonde_buf *out = flame->page->out;
    if (!flame->changes)
        return;
    const struct verdict_change *change = &flame->changes[number];
    double whole = flame->by_amount ? (double)flame->base_whole : 1;
    sonde_buf_puts(out, "; ");
    draw_put_percent_change(out, change, whole);
    sonde_buf_printf(out, ", %s", verdict_text(change->verdict));
}

/* For the tooltip: "12.00 MiB (+3.00 MiB)" of memory, otherwise "20.00 %, 1.20 s". */
static void put_base(const struct flamegraph *flame, uint32_t number) {
    const struct draw_node *node = draw_tree_node(flame->tree, number);
    struct sonde_buf *out = flame->page->out;
    const char *unit = flame->page->type.unit;
    bool is_memory = draw_is_memory(&flame->page->type);
    sonde_buf_puts(out, " data-b=\"");
    if (!is_memory)
        sonde_buf_printf(out, "%.2f %%, ", draw_percent(node->base, flame->tree->base));
    draw_value(out, node->base, unit);
    if (is_memory && node->total != node->base) {
        sonde_buf_puts(out, " (");
        draw_put_change(out, node->total - node->base, unit);
        sonde_buf_putc(out, ')');
    }
    put_verdict(flame, number);
    sonde_buf_putc(out, '"');
}

static void on_enter(void *context, uint32_t number) {
    struct flamegraph *flame = context;
    struct place *place = &flame->places[number];
    const struct draw_node *node = draw_tree_node(flame->tree, number);
    char colour[3];
    if (place->x < 0)
        return;
    place_children(flame, node, place);
    colour_of(flame, number, colour);
    put_frame(flame, colour, place->x, node->total, node->self, node->depth);
    if (place->folded_count && share(flame, place->folded) < flame->minimum)
        sonde_buf_printf(flame->page->out, " data-n=\"%u\"", place->folded_count);
    if (flame->options->palette == SONDE_PALETTE_DIFF)
        put_base(flame, number);
    put_name(flame, draw_tree_name(flame->tree, number), place->x, node->total, node->depth);
}

static void on_leave(void *context, uint32_t number) {
    struct flamegraph *flame = context;
    const struct place *place = &flame->places[number];
    const struct draw_node *node = draw_tree_node(flame->tree, number);
    if (place->x < 0 || !place->folded_count || share(flame, place->folded) < flame->minimum)
        return;
    char name[32];
    snprintf(name, sizeof name, "(%u more)", place->folded_count);
    double x = place->x + share(flame, node->total) - share(flame, node->self) -
               share(flame, place->folded);
    put_frame(flame, "z0", x, place->folded, place->folded, node->depth + 1);
    sonde_buf_printf(flame->page->out, " data-n=\"%u\"", place->folded_count);
    put_name(flame, name, x, place->folded, node->depth + 1);
}

static sonde_err put_picture(struct flamegraph *flame) {
    struct draw_page *page = flame->page;
    flame->places = calloc(flame->tree->nodes.count, sizeof *flame->places);
    if (!flame->places)
        return SONDE_OUT_OF_MEMORY;
    choose_minimum(flame);
    count_sizes(flame);
    page->bottom = page->top + ROW * (int)(flame->deepest + 1);
    sonde_buf_printf(&page->note, " · frames below %.3g %% are merged into “(n more)”",
                     100 * flame->minimum);
    if (flame->options->comparison && flame->options->comparison->growth_only)
        sonde_buf_printf(&page->note, " · only what grew is drawn; widths are the growth%s",
                         flame->is_noise ? "; grey is within noise" : "");
    draw_page_open(page);
    sonde_buf_puts(page->out, "<g class=\"frames\">\n");
    draw_tree_walk(flame->tree, on_enter, on_leave, flame);
    sonde_buf_puts(page->out, "</g>\n");
    draw_page_close(page, true);
    free(flame->places);
    return SONDE_OK;
}

/* Memory is compared by its amount: what holds as much as before did not shrink because the rest
 * grew. Of CPU time a capture takes as much as it is long, so shares are compared. */
static void put_diff_legend(struct draw_page *page, bool by_amount, bool has_verdicts) {
    bool is_bytes = strcmp(page->type.unit, "bytes") == 0;
    const char *grey = by_amount ? "unchanged" : "same share";
    if (has_verdicts)
        grey = "within noise, or unchanged";
    if (by_amount) {
        draw_page_key(page, "RD", is_bytes ? "more bytes than in the base" : "more objects", -1);
        draw_page_key(page, "BD", is_bytes ? "fewer bytes" : "fewer objects", -1);
    } else {
        draw_page_key(page, "RD", "larger share than in the base", -1);
        draw_page_key(page, "BD", "smaller share", -1);
    }
    draw_page_key(page, "W0", grey, -1);
    sonde_buf_printf(&page->note, " · widths are those of the new profile; colours compare %s",
                     !by_amount ? "shares of the total"
                     : is_bytes ? "bytes"
                                : "numbers of objects");
    if (has_verdicts)
        sonde_buf_puts(&page->note, ", at 95 % confidence");
}

static bool compares_amounts(const struct draw_page *page,
                             const struct sonde_draw_options *options) {
    bool is_normalised = options->comparison && options->comparison->is_normalised;
    return draw_is_memory(&page->type) && !is_normalised;
}

static sonde_err put_legend(struct draw_page *page, struct draw_tree *tree,
                            const struct sonde_draw_options *options, bool has_verdicts) {
    sonde_err err = draw_tree_sum(tree);
    if (!err && options->palette != SONDE_PALETTE_DIFF)
        err = draw_page_modules(page, tree, options->palette);
    else if (!err)
        put_diff_legend(page, compares_amounts(page, options), has_verdicts);
    return err;
}

static struct flamegraph prepare(const struct draw_tree *tree, struct draw_page *page,
                                 const struct sonde_draw_options *options) {
    bool by_amount = compares_amounts(page, options);
    int64_t larger = tree->total > tree->base ? tree->total : tree->base;
    return (struct flamegraph){.tree = tree,
                               .options = options,
                               .page = page,
                               .by_amount = by_amount,
                               .whole = by_amount ? larger : tree->total,
                               .base_whole = by_amount ? larger : tree->base};
}

/* Leaves *changes NULL if the samples are not known. */
static sonde_err judge(const struct flamegraph *flame, const uint32_t *leaves,
                       struct verdict_change **changes) {
    const struct sonde_draw_comparison *comparison = flame->options->comparison;
    struct draw_evidence evidence;
    *changes = NULL;
    if (!comparison || !comparison->blocks || !sonde_blocks_have_verdicts(comparison->blocks))
        return SONDE_OK;
    sonde_err err = draw_evidence_init(&evidence, flame->tree, leaves, comparison->blocks);
    if (!err)
        err = draw_evidence_nodes(&evidence, flame->by_amount ? VERDICT_AMOUNT : VERDICT_SHARE,
                                  DRAW_CONFIDENCE, changes);
    draw_evidence_finish(&evidence);
    return err;
}

/* Of growth: which functions may not have grown. */
static sonde_err find_noise(struct flamegraph *flame) {
    const struct sonde_draw_comparison *comparison = flame->options->comparison;
    uint32_t count = flame->tree->frames.count;
    if (!comparison || !comparison->functions || !comparison->functions->has_verdicts)
        return SONDE_OK;
    flame->is_noise = calloc(count + 1, sizeof *flame->is_noise);
    for (uint32_t i = 0; i < count && flame->is_noise; i++) {
        const struct draw_frame *frame = draw_tree_frame(flame->tree, i);
        flame->is_noise[i] = draw_is_noise(comparison, frame->name, frame->module);
    }
    return flame->is_noise ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}

static sonde_err put_page(struct draw_tree *tree, struct draw_page *page,
                          const struct sonde_draw_options *options, const uint32_t *leaves) {
    struct flamegraph flame = prepare(tree, page, options);
    struct verdict_change *changes = NULL;
    sonde_err err = find_noise(&flame);
    if (!err && options->palette == SONDE_PALETTE_DIFF)
        err = judge(&flame, leaves, &changes);
    flame.changes = changes;
    if (!err && options->palette == SONDE_PALETTE_DIFF)
        err = draw_page_gone(page, tree, changes);
    if (!err && tree->total <= 0) {
        draw_page_empty(page);
    } else if (!err) {
        err = put_legend(page, tree, options, changes != NULL);
        if (!err)
            err = put_picture(&flame);
    }
    free(changes);
    free(flame.is_noise);
    return err;
}

sonde_err draw_flamegraph(const struct sonde_profile *profile,
                          const struct sonde_draw_options *options, struct sonde_buf *out,
                          struct sonde_diag *diag) {
    struct draw_tree_options tree_options = draw_tree_options(options);
    struct draw_tree *tree;
    struct draw_page page;
    uint32_t *leaves = calloc(sonde_profile_sample_count(profile) + 1, sizeof *leaves);
    if (!leaves)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    tree_options.leaves = leaves;
    sonde_err err = draw_tree_build(profile, &tree_options, &tree, diag);
    if (!err) {
        draw_page_init(&page, profile, options, tree->total, "Flame graph", out);
        err = put_page(tree, &page, options, leaves);
        if (err)
            err = sonde_fail(diag, err, "out of memory");
        draw_page_finish(&page);
        draw_tree_destroy(tree);
    }
    free(leaves);
    return err;
}
