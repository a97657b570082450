/* SPDX-License-Identifier: Apache-2.0
 *
 * A level lists the bars of one depth from left to right, each by its distance to the end of the
 * one before it. In depth-first order the nodes of a depth come from left to right, so one pass
 * over the nodes suffices. The children of a bar begin where its own time ends. */
#include "gateway/families/grafana/call_tree.h"

#include <string.h>

#define MAX_DEPTH 4096

static void append(struct sonde_buf *column, const void *values, size_t count, size_t size) {
    if (count)
        sonde_buf_append(column, values, count * size);
}

static uint32_t index_at(const struct sonde_buf *column, size_t node) {
    return ((const uint32_t *)(const void *)column->data)[node];
}

static int64_t value_at(const struct sonde_buf *column, size_t node) {
    return column->len ? ((const int64_t *)(const void *)column->data)[node] : 0;
}

static bool is_consistent(const Sonde__V1__Tree *message) {
    size_t count = message->n_function;
    return message->n_parent == count && message->n_self == count && message->n_total == count &&
           (message->n_base_self == 0 || message->n_base_self == count) &&
           message->n_base_total == message->n_base_self;
}

static sonde_err add_functions(struct call_tree *tree, const Sonde__V1__Tree *message,
                               struct sonde_diag *diag) {
    for (size_t i = 0; i < message->n_functions; i++) {
        const char *name =
            sonde_arena_dup(&tree->names, message->functions[i], strlen(message->functions[i]));
        if (!name || tree->names.total > CALL_TREE_MAX_BYTES)
            return sonde_fail(diag, SONDE_TOO_LARGE,
                              "the names of the result have more than %u bytes",
                              CALL_TREE_MAX_BYTES);
        append(&tree->functions, &name, 1, sizeof name);
    }
    tree->function_count += message->n_functions;
    return SONDE_OK;
}

sonde_err call_tree_add(struct call_tree *tree, const Sonde__V1__Tree *message,
                        struct sonde_diag *diag) {
    size_t count = message->n_function;
    if (!is_consistent(message))
        return sonde_fail(diag, SONDE_PROTOCOL, "the service sent a malformed tree");
    if (tree->count + count > CALL_TREE_MAX_NODES)
        return sonde_fail(diag, SONDE_TOO_LARGE, "the result has more than %d nodes",
                          CALL_TREE_MAX_NODES);
    sonde_err err = add_functions(tree, message, diag);
    if (err)
        return err;
    append(&tree->function, message->function, count, sizeof(uint32_t));
    append(&tree->parent, message->parent, count, sizeof(uint32_t));
    append(&tree->self, message->self, count, sizeof(int64_t));
    append(&tree->total, message->total, count, sizeof(int64_t));
    append(&tree->base_self, message->base_self, message->n_base_self, sizeof(int64_t));
    append(&tree->base_total, message->base_total, message->n_base_total, sizeof(int64_t));
    tree->count += count;
    return SONDE_OK;
}

void call_tree_finish(struct call_tree *tree) {
    sonde_arena_finish(&tree->names);
    sonde_buf_finish(&tree->functions);
    sonde_buf_finish(&tree->function);
    sonde_buf_finish(&tree->parent);
    sonde_buf_finish(&tree->self);
    sonde_buf_finish(&tree->total);
    sonde_buf_finish(&tree->base_self);
    sonde_buf_finish(&tree->base_total);
    *tree = (struct call_tree){0};
}

/* Both sides of a flame graph while it is laid out. Sums wrap around if the service sends nonsense.
 */
struct side {
    const struct sonde_buf *self, *total;
    uint64_t *next; /* where the next child of a node begins */
    uint64_t *end;  /* of the last bar of a depth */
};

struct layout {
    const struct call_tree *tree;
    uint32_t *depth;
    size_t *used; /* values of a level that have been written */
    Querier__V1__Level *levels;
    size_t depth_count;
    struct side sides[2];
    size_t side_count;
};

/* A node's parent precedes it and its function exists. */
static bool find_depths(struct layout *layout) {
    const struct call_tree *tree = layout->tree;
    for (size_t i = 0; i < tree->count; i++) {
        uint32_t parent = index_at(&tree->parent, i);
        if (index_at(&tree->function, i) >= tree->function_count || (i ? parent >= i : parent != 0))
            return false;
        layout->depth[i] = i ? layout->depth[parent] + 1 : 0;
        if (layout->depth[i] >= MAX_DEPTH)
            return false;
        if (layout->depth[i] >= layout->depth_count)
            layout->depth_count = layout->depth[i] + 1;
    }
    return true;
}

static bool allocate(struct layout *layout, struct sonde_arena *arena) {
    size_t nodes = layout->tree->count, group = layout->side_count == 2 ? 7 : 4;
    layout->levels = sonde_arena_alloc(arena, layout->depth_count * sizeof layout->levels[0]);
    layout->used = sonde_arena_alloc(arena, layout->depth_count * sizeof layout->used[0]);
    bool is_ok = layout->levels && layout->used;
    for (size_t i = 0; is_ok && i < layout->depth_count; i++)
        querier__v1__level__init(&layout->levels[i]);
    for (size_t i = 0; is_ok && i < nodes; i++)
        layout->levels[layout->depth[i]].n_values += group;
    for (size_t i = 0; is_ok && i < layout->depth_count; i++) {
        Querier__V1__Level *level = &layout->levels[i];
        level->values = sonde_arena_alloc(arena, level->n_values * sizeof level->values[0]);
        is_ok = level->values != NULL;
    }
    for (size_t i = 0; is_ok && i < layout->side_count; i++) {
        layout->sides[i].next = sonde_arena_alloc(arena, nodes * sizeof(uint64_t));
        layout->sides[i].end = sonde_arena_alloc(arena, layout->depth_count * sizeof(uint64_t));
        is_ok = layout->sides[i].next && layout->sides[i].end;
    }
    return is_ok;
}

static void place(struct layout *layout, size_t node) {
    uint32_t depth = layout->depth[node], parent = index_at(&layout->tree->parent, node);
    int64_t *out = layout->levels[depth].values + layout->used[depth];
    for (size_t i = 0; i < layout->side_count; i++) {
        struct side *side = &layout->sides[i];
        uint64_t own = (uint64_t)value_at(side->self, node);
        uint64_t total = (uint64_t)value_at(side->total, node);
        uint64_t begin = node ? side->next[parent] : 0;
        side->next[parent] += node ? total : 0;
        side->next[node] = begin + own;
        *out++ = (int64_t)(begin - side->end[depth]);
        *out++ = (int64_t)total;
        *out++ = (int64_t)own;
        side->end[depth] = begin + total;
    }
    *out = node ? (int64_t)index_at(&layout->tree->function, node) + 1 : 0;
    layout->used[depth] += layout->side_count == 2 ? 7 : 4;
}

/* "total", then the functions. */
static sonde_err name_all(const struct call_tree *tree, struct sonde_arena *arena,
                          Querier__V1__FlameGraphDiff *graph, struct sonde_diag *diag) {
    graph->names = sonde_arena_alloc(arena, (tree->function_count + 1) * sizeof(char *));
    if (!graph->names)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    graph->n_names = tree->function_count + 1;
    graph->names[0] = (char *)(uintptr_t) "total";
    if (tree->function_count)
        memcpy(graph->names + 1, tree->functions.data, tree->function_count * sizeof(char *));
    return SONDE_OK;
}

static void sum_up(const struct call_tree *tree, bool has_base,
                   Querier__V1__FlameGraphDiff *graph) {
    graph->rightticks = value_at(&tree->total, 0);
    graph->leftticks = has_base ? value_at(&tree->base_total, 0) : 0;
    graph->total = (int64_t)((uint64_t)graph->rightticks + (uint64_t)graph->leftticks);
    for (size_t i = 0; i < tree->count; i++) {
        int64_t own = value_at(&tree->self, i), base = value_at(&tree->base_self, i);
        graph->max_self = own > graph->max_self ? own : graph->max_self;
        graph->max_self = has_base && base > graph->max_self ? base : graph->max_self;
    }
}

static bool is_whole(const struct call_tree *tree, bool has_base) {
    bool failed = tree->functions.failed || tree->function.failed || tree->parent.failed ||
                  tree->self.failed || tree->total.failed || tree->base_self.failed ||
                  tree->base_total.failed;
    size_t base = tree->base_self.len;
    return !failed && (base == 0 || base == tree->self.len) && (!has_base || base || !tree->count);
}

sonde_err call_tree_flamegraph(const struct call_tree *tree, bool has_base,
                               struct sonde_arena *arena, Querier__V1__FlameGraphDiff *graph,
                               struct sonde_diag *diag) {
    struct layout layout = {
        .tree = tree,
        .sides = {{.self = &tree->self, .total = &tree->total}},
        .side_count = 1,
    };
    querier__v1__flame_graph_diff__init(graph);
    if (!is_whole(tree, has_base))
        return sonde_fail(diag, SONDE_PROTOCOL, "the service sent a malformed tree");
    if (tree->count == 0)
        return SONDE_OK;
    if (has_base) {
        layout.sides[1] = layout.sides[0];
        layout.sides[0] = (struct side){.self = &tree->base_self, .total = &tree->base_total};
        layout.side_count = 2;
    }
    layout.depth = sonde_arena_alloc(arena, tree->count * sizeof layout.depth[0]);
    if (!layout.depth)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    if (!find_depths(&layout))
        return sonde_fail(diag, SONDE_PROTOCOL, "the service sent a malformed tree");
    if (!allocate(&layout, arena))
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    for (size_t i = 0; i < tree->count; i++)
        place(&layout, i);
    graph->levels = sonde_arena_alloc(arena, layout.depth_count * sizeof graph->levels[0]);
    if (!graph->levels)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    graph->n_levels = layout.depth_count;
    for (size_t i = 0; i < layout.depth_count; i++)
        graph->levels[i] = &layout.levels[i];
    sum_up(tree, has_base, graph);
    return name_all(tree, arena, graph, diag);
}
