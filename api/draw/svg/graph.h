/* SPDX-License-Identifier: Apache-2.0
 *
 * The call graph of a tree: one node per function, one edge per caller and callee. A stack counts
 * once per node and edge, however often recursion passes them. The graph only has the most
 * expensive functions and edges. An edge is "indirect" if functions between its nodes were left
 * out.
 *
 * Internal to api/draw. Thread safety: one thread at a time. */
#ifndef SONDE_API_DRAW_SVG_GRAPH_H
#define SONDE_API_DRAW_SVG_GRAPH_H

#include "api/draw/tree.h"

#define DRAW_GRAPH_NODES 60
#define DRAW_GRAPH_EDGES 240

struct draw_graph_node {
    uint32_t frame;
    double width, height; /* set by the caller of the layout */
    double x, y;          /* of the centre; set by the layout */
};

struct draw_graph_edge {
    uint32_t from, to; /* node numbers */
    int64_t weight;
    bool indirect;
    double *points; /* pairs of x and y from caller to callee; set by the layout */
    size_t point_count;
};

struct draw_graph {
    struct sonde_arena arena;
    struct draw_graph_node nodes[DRAW_GRAPH_NODES]; /* most expensive first */
    struct draw_graph_edge edges[DRAW_GRAPH_EDGES]; /* heaviest first */
    uint32_t node_count, edge_count;
    uint32_t left_out; /* functions without a node */
    double width, height;
};

/* After draw_tree_sum. Functions below `minimum`, a share of the total, are left out. */
SONDE_MUST_USE sonde_err draw_graph_build(const struct draw_tree *tree, double minimum,
                                          struct draw_graph *graph);
/* Places nodes in layers, callers above callees. Needs the width and height of every node. */
SONDE_MUST_USE sonde_err draw_graph_layout(struct draw_graph *graph);
void draw_graph_finish(struct draw_graph *graph);

#endif
