/* SPDX-License-Identifier: Apache-2.0
 *
 * A node's weight is the largest total below it, itself included, so a parent never weighs less
 * than its child. Therefore the nodes above any weight are a tree, and so are these with some of
 * the nodes of that weight, taken in the order of their numbers: a parent has a lower number than
 * its children. So one number, the weight of the last node that stays, decides. */
#include "service/rpc/history/trim.h"

#include <stdlib.h>
#include <string.h>

struct trimming {
    const struct draw_tree *tree;
    int64_t *weights;
    uint32_t *places; /* by node: its index in the result, if it stays */
    bool *stays;
    struct trimmed_tree *out;
};

static int64_t magnitude(int64_t value) {
    return value == INT64_MIN ? INT64_MAX : value < 0 ? -value : value;
}

static void weigh(struct trimming *trimming) {
    const struct draw_tree *tree = trimming->tree;
    for (uint32_t i = tree->nodes.count; i-- > 0;) {
        const struct draw_node *node = draw_tree_node(tree, i);
        int64_t own = magnitude(node->total), base = magnitude(node->base);
        int64_t *weight = &trimming->weights[i];
        own = own < base ? base : own;
        *weight = *weight < own ? own : *weight;
        if (i > 0 && trimming->weights[node->parent] < *weight)
            trimming->weights[node->parent] = *weight;
    }
}

/* The number of nodes that weigh at least that much. */
static uint32_t count_from(const struct trimming *trimming, int64_t weight) {
    uint32_t found = 0;
    for (uint32_t i = 0; i < trimming->tree->nodes.count; i++)
        found += trimming->weights[i] >= weight;
    return found;
}

/* The largest weight that at least max_nodes nodes have, by halving: 63 passes at most. */
static int64_t find_limit(const struct trimming *trimming, uint32_t max_nodes) {
    int64_t low = 0, high = trimming->weights[DRAW_TREE_ROOT];
    while (low < high) {
        int64_t middle = low + (high - low) / 2 + 1;
        if (count_from(trimming, middle) >= max_nodes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static void choose(struct trimming *trimming, uint32_t max_nodes) {
    uint32_t count = trimming->tree->nodes.count;
    if (count <= max_nodes) {
        memset(trimming->stays, true, count * sizeof *trimming->stays);
        return;
    }
    weigh(trimming);
    int64_t limit = find_limit(trimming, max_nodes);
    uint32_t above = limit < INT64_MAX ? count_from(trimming, limit + 1) : 0;
    uint32_t room = max_nodes - above; /* for nodes of exactly that weight */
    for (uint32_t i = 0; i < count; i++) {
        bool is_last = trimming->weights[i] == limit && room > 0;
        trimming->stays[i] = trimming->weights[i] > limit || is_last;
        room -= is_last;
    }
    trimming->out->lost = count - max_nodes;
}

/* The base's own value: its total without that of its children. */
static int64_t base_self(const struct draw_tree *tree, const struct draw_node *node) {
    int64_t self = node->base;
    for (uint32_t child = node->first_child; child;) {
        const struct draw_node *below = draw_tree_node(tree, child);
        self = draw_add(self, below->base == INT64_MIN ? INT64_MAX : -below->base);
        child = below->next_sibling;
    }
    return self;
}

static struct trimmed_node *append(struct trimming *trimming, uint32_t number, uint32_t parent) {
    struct trimmed_node *node = &trimming->out->nodes[trimming->out->count++];
    *node = (struct trimmed_node){.node = number, .parent = parent};
    return node;
}

static void add_other(struct trimming *trimming, const struct draw_node *node, uint32_t place) {
    struct trimmed_node *other = NULL;
    for (uint32_t child = node->first_child; child;) {
        const struct draw_node *below = draw_tree_node(trimming->tree, child);
        if (!trimming->stays[child]) {
            if (!other)
                other = append(trimming, TRIM_OTHER, place);
            other->self = other->total = draw_add(other->total, below->total);
            other->base_self = other->base_total = draw_add(other->base_total, below->base);
        }
        child = below->next_sibling;
    }
}

/* Depth first; a node's "other" comes before its children. */
static void on_enter(void *context, uint32_t number) {
    struct trimming *trimming = context;
    const struct draw_node *node = draw_tree_node(trimming->tree, number);
    if (!trimming->stays[number])
        return;
    uint32_t place = (uint32_t)trimming->out->count;
    uint32_t parent = number == DRAW_TREE_ROOT ? 0 : trimming->places[node->parent];
    struct trimmed_node *kept = append(trimming, number, parent);
    trimming->places[number] = place;
    kept->self = node->self;
    kept->total = node->total;
    kept->base_total = node->base;
    kept->base_self = base_self(trimming->tree, node);
    add_other(trimming, node, place);
}

sonde_err trim_tree(const struct draw_tree *tree, uint32_t max_nodes,
                    struct trimmed_tree *trimmed) {
    uint32_t count = tree->nodes.count;
    size_t most = count < max_nodes ? count : max_nodes;
    struct trimming trimming = {tree, calloc(count, sizeof(int64_t)),
                                calloc(count, sizeof(uint32_t)), calloc(count, sizeof(bool)),
                                trimmed};
    *trimmed = (struct trimmed_tree){calloc(2 * most, sizeof *trimmed->nodes), 0, 0};
    sonde_err err = trimmed->nodes && trimming.weights && trimming.places && trimming.stays
                        ? SONDE_OK
                        : SONDE_OUT_OF_MEMORY;
    if (!err) {
        choose(&trimming, max_nodes);
        draw_tree_walk(tree, on_enter, NULL, &trimming);
    }
    free(trimming.weights);
    free(trimming.places);
    free(trimming.stays);
    return err;
}
