/* SPDX-License-Identifier: Apache-2.0
 *
 * Draws the call graph. A box is a function; its size shows the function's own value. An arrow
 * leads from caller to callee; its width shows the value of the calls. */
#include "api/draw/compare/changes.h"
#include "api/draw/svg/graph.h"
#include "api/draw/svg/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_MINIMUM 0.005
#define NAME_CHARS      48
#define SMALL           10.0
#define LARGE           15.0 /* extra font size of the most expensive function */
#define CHAR_WIDTH      0.61 /* of the font size */
#define LINE            1.25
#define ARROW           7.0

struct callgraph {
    const struct draw_tree *tree;
    const struct sonde_draw_options *options;
    struct draw_page *page;
    struct draw_graph graph;
    int64_t largest; /* flat of all functions */
};

static double font_size(const struct callgraph *call, const struct draw_frame *frame) {
    if (frame->flat <= 0 || call->largest <= 0)
        return SMALL;
    return SMALL + LARGE * sqrt((double)frame->flat / (double)call->largest);
}

/* "120 (12.3 %)" */
static void put_share(const struct callgraph *call, struct sonde_buf *out, int64_t value) {
    draw_value(out, value, call->page->type.unit);
    sonde_buf_printf(out, " (%.1f %%)", draw_percent(value, call->tree->total));
}

static void put_costs(const struct callgraph *call, const struct draw_frame *frame,
                      struct sonde_buf *self, struct sonde_buf *all) {
    put_share(call, self, frame->flat);
    if (frame->flat != frame->cum) {
        sonde_buf_puts(all, "of ");
        put_share(call, all, frame->cum);
    }
}

static void measure(struct callgraph *call) {
    for (uint32_t i = 0; i < call->graph.node_count; i++) {
        const struct draw_frame *frame = draw_tree_frame(call->tree, call->graph.nodes[i].frame);
        if (frame->flat > call->largest)
            call->largest = frame->flat;
    }
    for (uint32_t i = 0; i < call->graph.node_count; i++) {
        struct draw_graph_node *node = &call->graph.nodes[i];
        const struct draw_frame *frame = draw_tree_frame(call->tree, node->frame);
        struct sonde_buf self = {0}, all = {0};
        put_costs(call, frame, &self, &all);
        size_t chars = draw_text_width(frame->shown);
        chars = chars > NAME_CHARS ? NAME_CHARS : chars;
        chars = self.len > chars ? self.len : chars;
        chars = all.len > chars ? all.len : chars;
        double size = font_size(call, frame);
        node->width = size * CHAR_WIDTH * (double)chars + size + 6;
        node->height = size * LINE * (all.len ? 3 : 2) + size * 0.8;
        sonde_buf_finish(&self);
        sonde_buf_finish(&all);
    }
}

static void put_text(struct sonde_buf *out, double x, double y, double size, const char *text,
                     size_t max_chars) {
    sonde_buf_puts(out, "<text x=\"");
    draw_number(out, x);
    sonde_buf_puts(out, "\" y=\"");
    draw_number(out, y);
    sonde_buf_puts(out, "\" font-size=\"");
    draw_number(out, size);
    sonde_buf_puts(out, "\">");
    draw_xml(out, text, max_chars);
    sonde_buf_puts(out, "</text>");
}

static void put_box(struct sonde_buf *out, const struct draw_graph_node *node, const char *colour) {
    const double corner = 4;
    sonde_buf_printf(out,
                     "<path class=\"%s\" d=\"M%.1f %.1fh%.1fq4 0 4 4v%.1fq0 4 -4 4h%.1fq-4 0 -4 "
                     "-4v%.1fq0 -4 4 -4z\"/>",
                     colour, node->x - node->width / 2 + corner, node->y - node->height / 2,
                     node->width - 2 * corner, node->height - 2 * corner, 2 * corner - node->width,
                     2 * corner - node->height);
}

static void put_node(const struct callgraph *call, const struct draw_graph_node *node) {
    struct sonde_buf *out = call->page->out, self = {0}, all = {0};
    const struct draw_frame *frame = draw_tree_frame(call->tree, node->frame);
    double size = font_size(call, frame), y = node->y - node->height / 2 + size * 1.3;
    char colour[3];
    draw_colour(frame, call->options->palette, colour);
    if (draw_is_noise(call->options->comparison, frame->name, frame->module))
        memcpy(colour, "W0", 3);
    put_costs(call, frame, &self, &all);
    sonde_buf_printf(out, "<g class=\"node\" data-v=\"%lld %lld\"", (long long)frame->cum,
                     (long long)frame->flat);
    draw_put_names(out, frame->name, frame->shown);
    sonde_buf_printf(out, " (%.2f%%)</title>", draw_percent(frame->cum, call->tree->total));
    put_box(out, node, colour);
    put_text(out, node->x, y, size, frame->shown, NAME_CHARS);
    put_text(out, node->x, y + size * LINE, size, sonde_buf_slice(&self).data, 0);
    if (all.len)
        put_text(out, node->x, y + 2 * size * LINE, size, sonde_buf_slice(&all).data, 0);
    sonde_buf_puts(out, "</g>\n");
    sonde_buf_finish(&self);
    sonde_buf_finish(&all);
}

/* Draws a smooth curve through the bends, vertical at both ends. */
static void put_curve(struct sonde_buf *out, const struct draw_graph_edge *edge) {
    const double *p = edge->points;
    size_t last = edge->point_count - 1;
    double end_y = p[2 * last + 1] - (p[2 * last + 1] > p[2 * last - 1] ? ARROW : -ARROW);
    sonde_buf_printf(out, "M%.1f %.1f", p[0], p[1]);
    for (size_t i = 1; i <= last; i++) {
        double y = i == last ? end_y : p[2 * i + 1], middle = (p[2 * i - 1] + y) / 2;
        sonde_buf_printf(out, "C%.1f %.1f %.1f %.1f %.1f %.1f", p[2 * i - 2], middle, p[2 * i],
                         middle, p[2 * i], y);
    }
}

static void put_loop(struct sonde_buf *out, const struct draw_graph_node *node) {
    double x = node->x + node->width / 2, y = node->y;
    sonde_buf_printf(out, "M%.1f %.1fc22 -14 22 14 0 8", x, y - 4);
}

static void put_tip(struct sonde_buf *out, const struct draw_graph_edge *edge, double width) {
    const double *p = &edge->points[2 * (edge->point_count - 1)];
    double back = p[1] > p[-1] ? -ARROW - 1 : ARROW + 1, half = 3.2 + width / 2;
    sonde_buf_printf(out, "<path class=\"tip\" d=\"M%.1f %.1fl%.1f %.1fh%.1fz\"/>", p[0], p[1],
                     -half, back, 2 * half);
}

static void put_weight(const struct callgraph *call, const struct draw_graph_edge *edge) {
    struct sonde_buf *out = call->page->out, text = {0};
    size_t at = (edge->point_count - 1) / 2;
    const double *p = &edge->points[2 * at];
    draw_value(&text, edge->weight, call->page->type.unit);
    sonde_buf_printf(out, "<text class=\"weight\" x=\"%.1f\" y=\"%.1f\">", (p[0] + p[2]) / 2 + 6,
                     (p[1] + p[3]) / 2 + 4);
    draw_xml(out, sonde_buf_slice(&text).data, 0);
    sonde_buf_puts(out, "</text>\n");
    sonde_buf_finish(&text);
}

static void put_edge(const struct callgraph *call, const struct draw_graph_edge *edge) {
    struct sonde_buf *out = call->page->out;
    double width = 1 + 7 * (double)edge->weight / (double)call->tree->total;
    sonde_buf_printf(out, "<path class=\"edge\" stroke-width=\"%.1f\"%s d=\"", width,
                     edge->indirect ? " stroke-dasharray=\"5 3\"" : "");
    if (edge->points)
        put_curve(out, edge);
    else
        put_loop(out, &call->graph.nodes[edge->from]);
    sonde_buf_puts(out, "\"/>");
    if (edge->points)
        put_tip(out, edge, width);
    sonde_buf_putc(out, '\n');
}

static bool has_verdicts(const struct callgraph *call) {
    const struct sonde_draw_comparison *comparison = call->options->comparison;
    return comparison && comparison->functions && comparison->functions->has_verdicts;
}

static void put_picture(struct callgraph *call) {
    struct draw_page *page = call->page;
    const struct draw_graph *graph = &call->graph;
    if (graph->width > page->width)
        page->width = (int)graph->width + 1;
    page->right = (int)graph->width + 1;
    page->bottom = page->top + (int)graph->height + 1;
    if (graph->left_out)
        sonde_buf_printf(&page->note,
                         " · smaller functions not shown: %u; dashed arrows lead through them",
                         graph->left_out);
    if (call->options->comparison)
        sonde_buf_printf(&page->note, " · only what grew is drawn; percentages are of all growth%s",
                         has_verdicts(call) ? "; grey is within noise" : "");
    draw_page_open(page);
    sonde_buf_printf(page->out, "<g class=\"graph\" transform=\"translate(%d %d)\">\n",
                     (page->width - (int)graph->width) / 2, page->top);
    for (uint32_t i = graph->edge_count; i > 0; i--)
        put_edge(call, &graph->edges[i - 1]);
    for (uint32_t i = 0; i < graph->node_count; i++)
        put_node(call, &graph->nodes[i]);
    for (uint32_t i = 0; i < graph->edge_count; i++)
        if (graph->edges[i].points)
            put_weight(call, &graph->edges[i]);
    sonde_buf_puts(page->out, "</g>\n");
    draw_page_close(page, false);
}

static sonde_err draw_graph(struct callgraph *call, struct draw_tree *tree) {
    double minimum =
        call->options->minimum_share > 0 ? call->options->minimum_share : DEFAULT_MINIMUM;
    sonde_err err = draw_tree_sum(tree);
    if (!err)
        err = draw_page_modules(call->page, tree, call->options->palette);
    if (!err)
        err = draw_graph_build(tree, minimum, &call->graph);
    if (err)
        return err;
    measure(call);
    err = draw_graph_layout(&call->graph);
    if (!err)
        put_picture(call);
    return err;
}

sonde_err draw_callgraph(const struct sonde_profile *profile,
                         const struct sonde_draw_options *options, struct sonde_buf *out,
                         struct sonde_diag *diag) {
    struct draw_tree_options tree_options = {.type_index = options->type_index,
                                             .base_index = options->type_index,
                                             .merge_threads = true,
                                             .no_negatives = true};
    struct draw_tree *tree = NULL;
    struct draw_page page = {0};
    struct callgraph *call = calloc(1, sizeof *call);
    if (!call)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    sonde_err err = draw_tree_build(profile, &tree_options, &tree, diag);
    if (!err) {
        draw_page_init(&page, profile, options, tree->total, "Call graph", out);
        *call = (struct callgraph){.tree = tree, .options = options, .page = &page};
        if (tree->total <= 0)
            draw_page_empty(&page);
        else if ((err = draw_graph(call, tree)))
            err = sonde_fail(diag, err, "out of memory");
    }
    draw_graph_finish(&call->graph);
    draw_page_finish(&page);
    draw_tree_destroy(tree);
    free(call);
    return err;
}
