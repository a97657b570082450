/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of functions are summed over the tree's nodes; a function that calls itself counts once.
 * The graph has the functions with the largest totals, and omits the calls to and from others. */
#include "gateway/families/grafana/dot.h"

#include "api/text/utf8.h"

#include <stdlib.h>
#include <string.h>

struct function {
    uint32_t index;
    int64_t self, total;
    uint32_t open; /* nodes of the function among the ancestors */
    bool is_shown;
};

struct edge {
    uint32_t from, to;
    int64_t total;
};

struct graph {
    const struct call_tree *tree;
    struct function *functions, **sorted;
    struct edge *edges;
    size_t edge_count;
};

static void *must_alloc(size_t count, size_t size) {
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        abort();
    return memory;
}

static uint32_t index_at(const struct sonde_buf *column, size_t node) {
    return ((const uint32_t *)(const void *)column->data)[node];
}

static int64_t value_at(const struct sonde_buf *column, size_t node) {
    return ((const int64_t *)(const void *)column->data)[node];
}

static int64_t add(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* Leaves the ancestors of the node before until `parent` is the innermost one. */
static void leave(struct graph *graph, uint32_t *path, size_t *depth, uint32_t parent) {
    while (*depth && path[*depth - 1] != parent) {
        uint32_t node = path[--*depth];
        graph->functions[index_at(&graph->tree->function, node)].open--;
    }
}

static void count_node(struct graph *graph, uint32_t node) {
    const struct call_tree *tree = graph->tree;
    struct function *function = &graph->functions[index_at(&tree->function, node)];
    uint32_t parent = index_at(&tree->parent, node);
    function->self = add(function->self, value_at(&tree->self, node));
    if (function->open++ == 0)
        function->total = add(function->total, value_at(&tree->total, node));
    if (node && parent)
        graph->edges[graph->edge_count++] =
            (struct edge){index_at(&tree->function, parent), index_at(&tree->function, node),
                          value_at(&tree->total, node)};
}

/* The root, node 0, is the whole and not a function. */
static void count_all(struct graph *graph) {
    size_t depth = 0;
    uint32_t *path = must_alloc(graph->tree->count, sizeof *path);
    for (uint32_t node = 1; node < graph->tree->count; node++) {
        leave(graph, path, &depth, index_at(&graph->tree->parent, node));
        count_node(graph, node);
        path[depth++] = node;
    }
    free(path);
}

static int by_total(const void *left, const void *right) {
    const struct function *a = *(struct function *const *)left;
    const struct function *b = *(struct function *const *)right;
    return a->total != b->total ? (a->total < b->total ? 1 : -1) : (a->index > b->index ? 1 : -1);
}

static int by_ends(const void *left, const void *right) {
    const struct edge *a = left, *b = right;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->to != b->to ? (a->to < b->to ? -1 : 1) : 0;
}

static void append_label(struct sonde_buf *out, const char *name) {
    for (size_t len = strlen(name), step; len; name += step, len -= step) {
        if (*name == '"' || *name == '\\')
            sonde_buf_putc(out, '\\');
        step = sonde_utf8_put_next(out, name, len, ' ');
    }
}

static void append_function(struct sonde_buf *out, const struct graph *graph,
                            struct function *function, int64_t whole) {
    char *name;
    memcpy(&name, graph->tree->functions.data + function->index * sizeof name, sizeof name);
    function->is_shown = true;
    sonde_buf_printf(out, "N%u [label=\"", function->index);
    append_label(out, name);
    sonde_buf_printf(out, "\\n%lld of %lld (%.2f%%)\"]\n", (long long)function->self,
                     (long long)function->total,
                     whole > 0 ? 100.0 * (double)function->total / (double)whole : 0);
}

static void append_edges(struct sonde_buf *out, struct graph *graph) {
    qsort(graph->edges, graph->edge_count, sizeof graph->edges[0], by_ends);
    for (size_t i = 0; i < graph->edge_count;) {
        const struct edge *edge = &graph->edges[i];
        int64_t total = 0;
        for (; i < graph->edge_count && by_ends(edge, &graph->edges[i]) == 0; i++)
            total = add(total, graph->edges[i].total);
        if (graph->functions[edge->from].is_shown && graph->functions[edge->to].is_shown)
            sonde_buf_printf(out, "N%u -> N%u [label=\" %lld\"]\n", edge->from, edge->to,
                             (long long)total);
    }
}

void dot_append(struct sonde_buf *out, const struct call_tree *tree) {
    struct graph graph = {.tree = tree};
    size_t count = tree->function_count;
    int64_t whole = tree->count ? value_at(&tree->total, 0) : 0;
    graph.functions = must_alloc(count, sizeof graph.functions[0]);
    graph.sorted = must_alloc(count, sizeof graph.sorted[0]);
    graph.edges = must_alloc(tree->count, sizeof graph.edges[0]);
    for (uint32_t i = 0; i < count; i++) {
        graph.functions[i].index = i;
        graph.sorted[i] = &graph.functions[i];
    }
    count_all(&graph);
    qsort(graph.sorted, count, sizeof graph.sorted[0], by_total);
    sonde_buf_puts(out, "digraph \"profile\" {\nnode [shape=box]\n");
    for (size_t i = 0; i < count && i < DOT_FUNCTIONS; i++)
        if (graph.sorted[i]->total)
            append_function(out, &graph, graph.sorted[i], whole);
    append_edges(out, &graph);
    sonde_buf_puts(out, "}\n");
    free(graph.functions);
    free(graph.sorted);
    free(graph.edges);
}
