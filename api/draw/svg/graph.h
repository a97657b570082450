/* SPDX-License-Identifier: Apache-2.0
 *
 * The call graph of a tree: one node a function, one edge a caller and its callee, each weighed
 * once a stack however often recursion passes by. Only what matters is kept: the costliest
 * functions, and edges that would show. Where a function between two kept ones was left out, the
 * edge is "indirect".
 *
 * Internal to api/draw. Thread safety: one thread at a time. */
#ifndef SONDE_API_DRAW_SVG_GRAPH_H
#define SONDE_API_DRAW_SVG_GRAPH_H

#include "api/draw/tree.h"

#define DRAW_GRAPH_NODES 60
#define DRAW_GRAPH_EDGES 240

struct draw_graph_node {
    uint32_t frame;
    double width, height; /* given by the drawer */
    double x, y;          /* of the centre; made by the layout */
};

struct draw_graph_edge {
    uint32_t from, to; /* node numbers */
    int64_t weight;
    bool indirect;
    double *points; /* x, y of the way from caller to callee, in pairs; made by the layout */
    size_t point_count;
};

struct draw_graph {
    struct sonde_arena arena;
    struct draw_graph_node nodes[DRAW_GRAPH_NODES]; /* costliest first */
    struct draw_graph_edge edges[DRAW_GRAPH_EDGES]; /* heaviest first */
    uint32_t node_count, edge_count;
    uint32_t left_out; /* functions that are not shown */
    double width, height;
};

/* After draw_tree_sum. minimum: share of the total below which a function is left out. */
SONDE_MUST_USE sonde_err draw_graph_build(const struct draw_tree *tree, double minimum,
                                          struct draw_graph *graph);
/* Layers from callers down to callees; width and height of every node are set. */
SONDE_MUST_USE sonde_err draw_graph_layout(struct draw_graph *graph);
void draw_graph_finish(struct draw_graph *graph);

#endif
