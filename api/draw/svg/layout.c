/* SPDX-License-Identifier: Apache-2.0
 *
 * A layered layout (Sugiyama, Tagawa and Toda):
 *
 *   1. Reverse the edges that close a cycle.
 *   2. Put each node one layer below its lowest caller.
 *   3. Give an edge that spans several layers a bend, a vertex without size, in each of them.
 *   4. Sort the vertices of each layer by the mean position of their neighbours, downwards and
 *      upwards, and use the order with the fewest crossings.
 *   5. Place the vertices of a layer as close to their neighbours as order and gaps allow: an
 *      isotonic regression, which pooling solves exactly.
 *
 * The graph is small (60 nodes, 240 edges), so simple loops are fast enough. */
#include "api/draw/svg/graph.h"

#include <stdlib.h>
#include <string.h>

#define SWEEPS    24
#define GAP_X     26.0
#define GAP_Y     58.0
#define BEND      10.0 /* width of a bend */
#define MARGIN    16.0
#define BEND_PULL 4.0 /* long edges should be straight */

struct vertex {
    uint32_t layer, place;
    double width, x, wanted;
    bool is_bend;
};

struct link {
    uint32_t above, below; /* vertices on adjacent layers */
    double pull;
};

struct layer {
    uint32_t *order; /* vertices, left to right */
    uint32_t count;
    double height, y;
};

struct layout {
    struct draw_graph *graph;
    struct sonde_arena *arena;
    bool reversed[DRAW_GRAPH_EDGES];
    uint32_t layer_of[DRAW_GRAPH_NODES];
    uint32_t chain[DRAW_GRAPH_EDGES]; /* by edge: its first bend; further ones follow */
    struct vertex *vertices;
    struct link *links;
    struct layer *layers;
    uint32_t vertex_count, link_count, layer_count;
};

static bool is_loop(const struct draw_graph_edge *edge) {
    return edge->from == edge->to;
}

static uint32_t upper(const struct layout *layout, uint32_t edge) {
    return layout->reversed[edge] ? layout->graph->edges[edge].to : layout->graph->edges[edge].from;
}

static uint32_t lower(const struct layout *layout, uint32_t edge) {
    return layout->reversed[edge] ? layout->graph->edges[edge].from : layout->graph->edges[edge].to;
}

/* Walks depth first with an explicit path and reverses edges that lead back to the path. */
static void reverse_cycles_from(struct layout *layout, uint32_t root, char *state) {
    const struct draw_graph *graph = layout->graph;
    uint32_t path[DRAW_GRAPH_NODES], next[DRAW_GRAPH_NODES], depth = 0;
    path[0] = root;
    next[0] = 0;
    state[root] = 1;
    for (;;) {
        uint32_t node = path[depth], edge = next[depth]++;
        if (edge == graph->edge_count) {
            state[node] = 2;
            if (depth-- == 0)
                return;
            continue;
        }
        const struct draw_graph_edge *at = &graph->edges[edge];
        if (at->from != node || is_loop(at))
            continue;
        if (state[at->to] == 1)
            layout->reversed[edge] = true;
        if (state[at->to] == 0) {
            state[at->to] = 1;
            path[++depth] = at->to;
            next[depth] = 0;
        }
    }
}

static void turn_cycles(struct layout *layout) {
    char state[DRAW_GRAPH_NODES] = {0}; /* 0 new, 1 on the path, 2 done */
    for (uint32_t node = 0; node < layout->graph->node_count; node++)
        if (state[node] == 0)
            reverse_cycles_from(layout, node, state);
}

static void assign_layers(struct layout *layout) {
    const struct draw_graph *graph = layout->graph;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < graph->edge_count; i++) {
            uint32_t above = upper(layout, i), below = lower(layout, i);
            if (above == below || layout->layer_of[below] > layout->layer_of[above])
                continue;
            layout->layer_of[below] = layout->layer_of[above] + 1;
            moved = true;
        }
    }
    for (uint32_t i = 0; i < graph->node_count; i++)
        if (layout->layer_of[i] >= layout->layer_count)
            layout->layer_count = layout->layer_of[i] + 1;
}

static uint32_t add_vertex(struct layout *layout, uint32_t layer, double width, bool is_bend) {
    layout->vertices[layout->vertex_count] =
        (struct vertex){.layer = layer, .width = width, .is_bend = is_bend};
    return layout->vertex_count++;
}

static void add_link(struct layout *layout, uint32_t above, uint32_t below, int64_t weight,
                     int64_t heaviest) {
    double pull = 1 + 3 * (double)weight / (double)heaviest;
    if (layout->vertices[above].is_bend && layout->vertices[below].is_bend)
        pull *= BEND_PULL;
    layout->links[layout->link_count++] = (struct link){above, below, pull};
}

/* The first node_count vertices are the nodes, the others are bends. */
static sonde_err add_vertices(struct layout *layout) {
    const struct draw_graph *graph = layout->graph;
    size_t most = graph->node_count + (size_t)graph->edge_count * (layout->layer_count + 1);
    layout->vertices = sonde_arena_alloc(layout->arena, most * sizeof *layout->vertices);
    layout->links = sonde_arena_alloc(layout->arena, most * sizeof *layout->links);
    if (!layout->vertices || !layout->links)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < graph->node_count; i++)
        add_vertex(layout, layout->layer_of[i], graph->nodes[i].width, false);
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        uint32_t above = upper(layout, i), below = lower(layout, i), at = above;
        layout->chain[i] = layout->vertex_count;
        for (uint32_t layer = layout->layer_of[above] + 1; layer < layout->layer_of[below];
             layer++) {
            uint32_t bend = add_vertex(layout, layer, BEND, true);
            add_link(layout, at, bend, graph->edges[i].weight, graph->edges[0].weight);
            at = bend;
        }
        if (above != below)
            add_link(layout, at, below, graph->edges[i].weight, graph->edges[0].weight);
    }
    return SONDE_OK;
}

static sonde_err fill_layers(struct layout *layout) {
    layout->layers = sonde_arena_alloc(layout->arena, layout->layer_count * sizeof *layout->layers);
    if (!layout->layers)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < layout->layer_count; i++) {
        struct layer *layer = &layout->layers[i];
        layer->order =
            sonde_arena_alloc(layout->arena, layout->vertex_count * sizeof *layer->order);
        if (!layer->order)
            return SONDE_OUT_OF_MEMORY;
    }
    for (uint32_t i = 0; i < layout->vertex_count; i++) {
        struct layer *layer = &layout->layers[layout->vertices[i].layer];
        layout->vertices[i].place = layer->count;
        layer->order[layer->count++] = i;
    }
    return SONDE_OK;
}

/* The mean of `place` or `x` of the neighbours above or below; the vertex's own without neighbours.
 */
static double mean(const struct layout *layout, uint32_t vertex, bool from_above, bool of_x) {
    const struct vertex *self = &layout->vertices[vertex];
    double sum = 0, pull = 0;
    for (uint32_t i = 0; i < layout->link_count; i++) {
        const struct link *link = &layout->links[i];
        if ((from_above ? link->below : link->above) != vertex)
            continue;
        const struct vertex *other = &layout->vertices[from_above ? link->above : link->below];
        sum += link->pull * (of_x ? other->x : other->place);
        pull += link->pull;
    }
    if (pull > 0)
        return sum / pull;
    return of_x ? self->x : self->place;
}

static int compare_wanted(const void *a, const void *b, void *context) {
    const struct layout *layout = context;
    const struct vertex *x = &layout->vertices[*(const uint32_t *)a];
    const struct vertex *y = &layout->vertices[*(const uint32_t *)b];
    if (x->wanted < y->wanted || x->wanted > y->wanted)
        return x->wanted < y->wanted ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static void sort_layer(struct layout *layout, uint32_t number, bool from_above) {
    struct layer *layer = &layout->layers[number];
    for (uint32_t i = 0; i < layer->count; i++)
        layout->vertices[layer->order[i]].wanted = mean(layout, layer->order[i], from_above, false);
    qsort_r(layer->order, layer->count, sizeof *layer->order, compare_wanted, layout);
    for (uint32_t i = 0; i < layer->count; i++)
        layout->vertices[layer->order[i]].place = i;
}

static uint64_t crossings(const struct layout *layout) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < layout->link_count; i++) {
        const struct vertex *a = &layout->vertices[layout->links[i].above];
        const struct vertex *b = &layout->vertices[layout->links[i].below];
        for (uint32_t j = i + 1; j < layout->link_count; j++) {
            const struct vertex *c = &layout->vertices[layout->links[j].above];
            const struct vertex *d = &layout->vertices[layout->links[j].below];
            count += a->layer == c->layer && ((a->place < c->place && b->place > d->place) ||
                                              (a->place > c->place && b->place < d->place));
        }
    }
    return count;
}

static void save_order(const struct layout *layout, uint32_t *places) {
    for (uint32_t i = 0; i < layout->vertex_count; i++)
        places[i] = layout->vertices[i].place;
}

static void restore_order(struct layout *layout, const uint32_t *places) {
    for (uint32_t i = 0; i < layout->vertex_count; i++) {
        layout->vertices[i].place = places[i];
        layout->layers[layout->vertices[i].layer].order[places[i]] = i;
    }
}

static sonde_err order_layers(struct layout *layout) {
    uint32_t *best = sonde_arena_alloc(layout->arena, (layout->vertex_count + 1) * sizeof *best);
    if (!best)
        return SONDE_OUT_OF_MEMORY;
    uint64_t fewest = crossings(layout);
    save_order(layout, best);
    for (int sweep = 0; sweep < SWEEPS && fewest > 0; sweep++) {
        for (uint32_t i = 1; i < layout->layer_count; i++)
            sort_layer(layout, sweep % 2 ? layout->layer_count - 1 - i : i, sweep % 2 == 0);
        uint64_t now = crossings(layout);
        if (now < fewest) {
            fewest = now;
            save_order(layout, best);
        }
    }
    restore_order(layout, best);
    return SONDE_OK;
}

/* Least squares with minimum distances between neighbours. After subtracting the space that the
 * left neighbours take, positions must be non-decreasing; runs that would decrease are pooled at
 * their mean. */
static void place_layer(struct layout *layout, struct layer *layer, double *means,
                        uint32_t *sizes) {
    double space = 0;
    uint32_t pools = 0;
    for (uint32_t i = 0; i < layer->count; i++) {
        const struct vertex *vertex = &layout->vertices[layer->order[i]];
        if (i > 0)
            space += (layout->vertices[layer->order[i - 1]].width + vertex->width) / 2 + GAP_X;
        means[pools] = vertex->wanted - space;
        sizes[pools++] = 1;
        for (; pools > 1 && means[pools - 2] > means[pools - 1]; pools--) {
            uint32_t size = sizes[pools - 2] + sizes[pools - 1];
            means[pools - 2] =
                (means[pools - 2] * sizes[pools - 2] + means[pools - 1] * sizes[pools - 1]) / size;
            sizes[pools - 2] = size;
        }
    }
    space = 0;
    for (uint32_t pool = 0, i = 0; pool < pools; pool++) {
        for (uint32_t n = 0; n < sizes[pool]; n++, i++) {
            struct vertex *vertex = &layout->vertices[layer->order[i]];
            if (i > 0)
                space += (layout->vertices[layer->order[i - 1]].width + vertex->width) / 2 + GAP_X;
            vertex->x = means[pool] + space;
        }
    }
}

static sonde_err place_across(struct layout *layout) {
    double *means = sonde_arena_alloc(layout->arena, (layout->vertex_count + 1) * sizeof *means);
    uint32_t *sizes = sonde_arena_alloc(layout->arena, (layout->vertex_count + 1) * sizeof *sizes);
    if (!means || !sizes)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < layout->layer_count; i++)
        place_layer(layout, &layout->layers[i], means, sizes);
    for (int sweep = 0; sweep <= SWEEPS; sweep++) {
        for (uint32_t i = 0; i < layout->layer_count; i++) {
            bool from_above = sweep % 2 == 0;
            struct layer *layer = &layout->layers[from_above ? i : layout->layer_count - 1 - i];
            for (uint32_t v = 0; v < layer->count; v++)
                layout->vertices[layer->order[v]].wanted =
                    mean(layout, layer->order[v], from_above, true);
            place_layer(layout, layer, means, sizes);
        }
    }
    return SONDE_OK;
}

static void place_down(struct layout *layout) {
    const struct draw_graph *graph = layout->graph;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        struct layer *layer = &layout->layers[layout->layer_of[i]];
        if (graph->nodes[i].height > layer->height)
            layer->height = graph->nodes[i].height;
    }
    double y = MARGIN;
    for (uint32_t i = 0; i < layout->layer_count; i++) {
        layout->layers[i].y = y + layout->layers[i].height / 2;
        y += layout->layers[i].height + GAP_Y;
    }
    layout->graph->height = y - GAP_Y + MARGIN;
}

/* Makes all coordinates positive and copies them from vertices to nodes. */
static void move_into_view(struct layout *layout) {
    struct draw_graph *graph = layout->graph;
    double left = 0, right = 0;
    for (uint32_t i = 0; i < layout->vertex_count; i++) {
        const struct vertex *vertex = &layout->vertices[i];
        if (i == 0 || vertex->x - vertex->width / 2 < left)
            left = vertex->x - vertex->width / 2;
        if (i == 0 || vertex->x + vertex->width / 2 > right)
            right = vertex->x + vertex->width / 2;
    }
    for (uint32_t i = 0; i < layout->vertex_count; i++)
        layout->vertices[i].x += MARGIN - left;
    for (uint32_t i = 0; i < graph->node_count; i++) {
        graph->nodes[i].x = layout->vertices[i].x;
        graph->nodes[i].y = layout->layers[layout->layer_of[i]].y;
    }
    graph->width = right - left + 2 * MARGIN;
}

static void put_point(struct draw_graph_edge *edge, double x, double y) {
    edge->points[2 * edge->point_count] = x;
    edge->points[2 * edge->point_count + 1] = y;
    edge->point_count++;
}

static void reverse_points(struct draw_graph_edge *edge) {
    for (size_t i = 0, j = edge->point_count - 1; i < j; i++, j--)
        for (size_t axis = 0; axis < 2; axis++) {
            double saved = edge->points[2 * i + axis];
            edge->points[2 * i + axis] = edge->points[2 * j + axis];
            edge->points[2 * j + axis] = saved;
        }
}

static sonde_err route(struct layout *layout, uint32_t number) {
    struct draw_graph_edge *edge = &layout->graph->edges[number];
    const struct draw_graph_node *above = &layout->graph->nodes[upper(layout, number)];
    const struct draw_graph_node *below = &layout->graph->nodes[lower(layout, number)];
    uint32_t first = layout->layer_of[upper(layout, number)];
    uint32_t last = layout->layer_of[lower(layout, number)];
    edge->points = sonde_arena_alloc(layout->arena, 2 * (last - first + 2) * sizeof(double));
    if (!edge->points)
        return SONDE_OUT_OF_MEMORY;
    /* a reversed edge has a partner in the other direction, so it is drawn to the side */
    double aside = layout->reversed[number] ? 0.25 : 0;
    put_point(edge, above->x + aside * above->width, above->y + above->height / 2);
    for (uint32_t layer = first + 1; layer < last; layer++)
        put_point(edge, layout->vertices[layout->chain[number] + layer - first - 1].x,
                  layout->layers[layer].y);
    put_point(edge, below->x + aside * below->width, below->y - below->height / 2);
    if (layout->reversed[number])
        reverse_points(edge);
    return SONDE_OK;
}

sonde_err draw_graph_layout(struct draw_graph *graph) {
    if (graph->node_count == 0)
        return SONDE_OK;
    struct layout *layout = sonde_arena_alloc(&graph->arena, sizeof *layout);
    if (!layout)
        return SONDE_OUT_OF_MEMORY;
    layout->graph = graph;
    layout->arena = &graph->arena;
    turn_cycles(layout);
    assign_layers(layout);
    sonde_err err = add_vertices(layout);
    if (!err)
        err = fill_layers(layout);
    if (!err)
        err = order_layers(layout);
    if (!err)
        err = place_across(layout);
    if (err)
        return err;
    place_down(layout);
    move_into_view(layout);
    for (uint32_t i = 0; i < graph->edge_count && !err; i++)
        if (!is_loop(&graph->edges[i]))
            err = route(layout, i);
    return err;
}
