/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/svg/graph.h"

#include <stdlib.h>
#include <string.h>

#define EDGE_MINIMUM 0.001
#define NO_NODE      UINT32_MAX

/* An edge during the walk. on_path ensures that recursion counts once. */
struct counted {
    uint32_t from, to, on_path;
    bool indirect;
    int64_t weight;
};

struct step {
    uint32_t nearest; /* the node of this frame or of the nearest caller that has one */
    uint32_t edge;    /* that leads to this step, or NO_NODE */
    bool skipped;     /* a function was left out since `nearest` */
};

struct walk {
    const struct draw_tree *tree;
    const uint32_t *nodes; /* by frame: its node, or NO_NODE */
    struct step path[DRAW_TREE_MAX_DEPTH + 2];
    struct profile_table edges;
    bool failed;
};

static int compare_cum(const void *a, const void *b, void *context) {
    const struct draw_frame *x = draw_tree_frame(context, *(const uint32_t *)a);
    const struct draw_frame *y = draw_tree_frame(context, *(const uint32_t *)b);
    int64_t first = draw_add(x->cum, x->flat), second = draw_add(y->cum, y->flat);
    if (first != second)
        return first > second ? -1 : 1;
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->module, y->module);
}

/* Adds the most expensive functions as nodes, and stores each frame's node number in nodes. */
static sonde_err choose_nodes(const struct draw_tree *tree, double minimum,
                              struct draw_graph *graph, uint32_t *nodes) {
    uint32_t root = draw_tree_node(tree, DRAW_TREE_ROOT)->frame, count = 0;
    uint32_t *order = calloc(tree->frames.count + 1, sizeof *order);
    if (!order)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < tree->frames.count; i++) {
        nodes[i] = NO_NODE;
        if (i != root && draw_tree_frame(tree, i)->cum > 0)
            order[count++] = i;
    }
    qsort_r(order, count, sizeof *order, compare_cum, (void *)(uintptr_t)tree);
    for (uint32_t i = 0; i < count && graph->node_count < DRAW_GRAPH_NODES; i++) {
        if ((double)draw_tree_frame(tree, order[i])->cum < minimum * (double)tree->total)
            continue;
        nodes[order[i]] = graph->node_count;
        graph->nodes[graph->node_count++].frame = order[i];
    }
    graph->left_out = count - graph->node_count;
    free(order);
    return SONDE_OK;
}

static bool equal_edge(const void *context, const void *item, const void *key) {
    const struct counted *a = item, *b = key;
    return a->from == b->from && a->to == b->to;
}

static uint32_t find_edge(struct walk *walk, uint32_t from, uint32_t to) {
    struct counted key = {.from = from, .to = to, .indirect = true};
    uint32_t hash = hash_index_words(&walk->edges.index, from, to);
    uint32_t edge = profile_table_find(&walk->edges, hash, equal_edge, NULL, &key);
    if (edge != PROFILE_TABLE_NONE)
        return edge;
    struct counted *item = profile_table_add(&walk->edges, hash);
    if (!item) {
        walk->failed = true;
        return NO_NODE;
    }
    *item = key;
    return walk->edges.count - 1;
}

static void on_enter(void *context, uint32_t number) {
    struct walk *walk = context;
    const struct draw_node *node = draw_tree_node(walk->tree, number);
    struct step *step = &walk->path[node->depth];
    uint32_t here = number == DRAW_TREE_ROOT ? NO_NODE : walk->nodes[node->frame];
    *step = (struct step){.nearest = here, .edge = NO_NODE};
    if (number == DRAW_TREE_ROOT)
        return;
    const struct step *above = &walk->path[node->depth - 1];
    if (here == NO_NODE) {
        step->nearest = above->nearest;
        step->skipped = true;
        return;
    }
    if (above->nearest == NO_NODE)
        return;
    step->edge = find_edge(walk, above->nearest, here);
    if (step->edge == NO_NODE)
        return;
    struct counted *edge = profile_table_item(&walk->edges, step->edge);
    edge->indirect &= above->skipped;
    if (edge->on_path++ == 0)
        edge->weight = draw_add(edge->weight, node->total);
}

static void on_leave(void *context, uint32_t number) {
    struct walk *walk = context;
    const struct step *step = &walk->path[draw_tree_node(walk->tree, number)->depth];
    if (step->edge != NO_NODE)
        ((struct counted *)profile_table_item(&walk->edges, step->edge))->on_path--;
}

static int compare_edges(const void *a, const void *b) {
    const struct counted *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : 1;
}

/* Sorts edges by weight and drops light ones, unless an edge is the only one to its callee. */
static void choose_edges(struct walk *walk, struct draw_graph *graph) {
    bool reached[DRAW_GRAPH_NODES] = {false};
    struct counted *edges = (struct counted *)(void *)walk->edges.items;
    if (walk->edges.count)
        qsort(edges, walk->edges.count, sizeof *edges, compare_edges);
    for (uint32_t i = 0; i < walk->edges.count && graph->edge_count < DRAW_GRAPH_EDGES; i++) {
        const struct counted *edge = &edges[i];
        bool shows = (double)edge->weight >= EDGE_MINIMUM * (double)walk->tree->total;
        if (edge->weight <= 0 || (!shows && reached[edge->to]))
            continue;
        reached[edge->to] = true;
        graph->edges[graph->edge_count++] = (struct draw_graph_edge){
            .from = edge->from, .to = edge->to, .weight = edge->weight, .indirect = edge->indirect};
    }
}

sonde_err draw_graph_build(const struct draw_tree *tree, double minimum, struct draw_graph *graph) {
    uint32_t *nodes = calloc(tree->frames.count + 1, sizeof *nodes);
    struct walk *walk = calloc(1, sizeof *walk);
    sonde_err err = SONDE_OUT_OF_MEMORY;
    if (nodes && walk)
        err = choose_nodes(tree, minimum, graph, nodes);
    if (!err) {
        walk->tree = tree;
        walk->nodes = nodes;
        profile_table_init(&walk->edges, sizeof(struct counted));
        draw_tree_walk(tree, on_enter, on_leave, walk);
        choose_edges(walk, graph);
        err = walk->failed ? SONDE_OUT_OF_MEMORY : SONDE_OK;
        profile_table_finish(&walk->edges);
    }
    free(nodes);
    free(walk);
    return err;
}

void draw_graph_finish(struct draw_graph *graph) {
    sonde_arena_finish(&graph->arena);
}
