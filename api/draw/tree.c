/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/tree.h"
#include "api/draw/display_frames.h"
#include "api/draw/names/view_names.h"

#include <stdlib.h>
#include <string.h>

struct draw_node *draw_tree_node(const struct draw_tree *tree, uint32_t number) {
    return profile_table_item(&tree->nodes, number);
}

struct draw_frame *draw_tree_frame(const struct draw_tree *tree, uint32_t number) {
    return profile_table_item(&tree->frames, number);
}

const char *draw_tree_name(const struct draw_tree *tree, uint32_t node) {
    return draw_tree_frame(tree, draw_tree_node(tree, node)->frame)->name;
}

const char *draw_tree_shown(const struct draw_tree *tree, uint32_t node) {
    return draw_tree_frame(tree, draw_tree_node(tree, node)->frame)->shown;
}

int64_t draw_tree_base_self(const struct draw_tree *tree, uint32_t number) {
    const struct draw_node *node = draw_tree_node(tree, number);
    int64_t self = node->base;
    for (uint32_t child = node->first_child; child != DRAW_TREE_ROOT;) {
        const struct draw_node *below = draw_tree_node(tree, child);
        self = draw_add(self, -below->base);
        child = below->next_sibling;
    }
    return self < 0 ? 0 : self; /* sums saturate */
}

static bool equal_node(const void *context, const void *item, const void *key) {
    const struct draw_node *a = item, *b = key;
    return a->parent == b->parent && a->frame == b->frame;
}

static sonde_err find_or_add(struct draw_tree *tree, uint32_t parent, uint32_t frame,
                             uint32_t *node) {
    struct draw_node key = {.parent = parent, .frame = frame};
    uint32_t hash = hash_index_words(&tree->nodes.index, parent, frame);
    *node = profile_table_find(&tree->nodes, hash, equal_node, NULL, &key);
    if (*node != PROFILE_TABLE_NONE)
        return SONDE_OK;
    if (tree->nodes.count >= DRAW_TREE_MAX_NODES)
        return SONDE_TOO_LARGE;
    key.depth = draw_tree_node(tree, parent)->depth + 1;
    struct draw_node *item = profile_table_add(&tree->nodes, hash);
    if (!item)
        return SONDE_OUT_OF_MEMORY;
    *item = key;
    *node = tree->nodes.count - 1;
    return SONDE_OK;
}

sonde_err draw_tree_child(struct draw_tree *tree, uint32_t parent, uint32_t frame, uint32_t *node) {
    uint32_t depth = draw_tree_node(tree, parent)->depth + 1;
    if (depth < DRAW_TREE_MAX_DEPTH)
        return find_or_add(tree, parent, frame, node);
    *node = parent;
    if (depth > DRAW_TREE_MAX_DEPTH)
        return SONDE_OK;
    struct draw_frame cut = {.name = "[deeper frames]", .module = "", .kind = SONDE_FRAME_NOTE};
    frame = draw_tree_intern(tree, &cut);
    return frame == PROFILE_TABLE_NONE ? SONDE_OUT_OF_MEMORY
                                       : find_or_add(tree, parent, frame, node);
}

/* Adds the frames of a sample below `node`. */
static sonde_err descend(struct draw_tree *tree, const struct draw_frames *frames,
                         const struct sonde_sample *sample, uint32_t *node) {
    sonde_err err = SONDE_OK;
    for (uint32_t i = sample->location_count; i > 0 && !err; i--) {
        uint32_t id = sample->locations[i - 1];
        for (uint32_t at = frames->first[id]; at < frames->first[id + 1] && !err; at++)
            err = draw_tree_child(tree, *node, frames->ids[at], node);
    }
    return err;
}

static int64_t value_of(const struct draw_tree_options *options, const struct sonde_sample *sample,
                        size_t index) {
    int64_t value = sample->values[index];
    return options->no_negatives && value < 0 ? 0 : value;
}

static sonde_err add_sample(struct draw_tree *tree, const struct draw_frames *frames,
                            const struct sonde_profile *profile,
                            const struct draw_tree_options *options, size_t index) {
    struct sonde_sample sample = sonde_profile_sample(profile, index);
    uint32_t node = DRAW_TREE_ROOT, thread = PROFILE_TABLE_NONE;
    sonde_err err = SONDE_OK;
    if (!options->merge_threads)
        err = draw_frames_thread(tree, profile, &sample, &thread);
    if (!err && thread != PROFILE_TABLE_NONE)
        err = draw_tree_child(tree, node, thread, &node);
    if (!err)
        err = descend(tree, frames, &sample, &node);
    if (err)
        return err;
    struct draw_node *leaf = draw_tree_node(tree, node);
    if (options->leaves)
        options->leaves[index] = node;
    leaf->self = draw_add(leaf->self, value_of(options, &sample, options->type_index));
    leaf->base = draw_add(leaf->base, value_of(options, &sample, options->base_index));
    if (options->memory)
        leaf->sampled += sonde_memory_sampled(options->memory, &sample);
    return SONDE_OK;
}

void draw_tree_add_totals(struct draw_tree *tree) {
    for (uint32_t i = 0; i < tree->nodes.count; i++)
        draw_tree_node(tree, i)->total = draw_tree_node(tree, i)->self;
    for (uint32_t i = tree->nodes.count - 1; i > DRAW_TREE_ROOT; i--) {
        struct draw_node *node = draw_tree_node(tree, i);
        struct draw_node *parent = draw_tree_node(tree, node->parent);
        parent->total = draw_add(parent->total, node->total);
        parent->base = draw_add(parent->base, node->base);
    }
    tree->total = draw_tree_node(tree, DRAW_TREE_ROOT)->total;
    tree->base = draw_tree_node(tree, DRAW_TREE_ROOT)->base;
}

static int compare_siblings(const void *a, const void *b, void *context) {
    const struct draw_tree *tree = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const struct draw_node *first = draw_tree_node(tree, x), *second = draw_tree_node(tree, y);
    int order = strcmp(draw_tree_name(tree, x), draw_tree_name(tree, y));
    if (order == 0)
        order = strcmp(draw_tree_frame(tree, first->frame)->module,
                       draw_tree_frame(tree, second->frame)->module);
    return order ? order : (x < y ? -1 : 1);
}

/* Sorts the children of one node by name, so that captures of the same program look alike. */
static void link_siblings(struct draw_tree *tree, uint32_t parent, uint32_t *children,
                          uint32_t count) {
    if (count > 1)
        qsort_r(children, count, sizeof *children, compare_siblings, tree);
    for (uint32_t i = count; i > 0; i--) {
        draw_tree_node(tree, children[i - 1])->next_sibling =
            draw_tree_node(tree, parent)->first_child;
        draw_tree_node(tree, parent)->first_child = children[i - 1];
    }
}

/* A counting sort by parent. Afterwards ends[p] is where the children of p end in `order`. */
static sonde_err link_children(struct draw_tree *tree) {
    uint32_t count = tree->nodes.count;
    uint32_t *ends = calloc(count + 1, sizeof *ends), *order = calloc(count, sizeof *order);
    if (ends && order) {
        for (uint32_t i = 1; i < count; i++)
            ends[draw_tree_node(tree, i)->parent + 1]++;
        for (uint32_t i = 1; i < count; i++)
            ends[i] += ends[i - 1];
        for (uint32_t i = 1; i < count; i++)
            order[ends[draw_tree_node(tree, i)->parent]++] = i;
        for (uint32_t i = 0, start = 0; i < count; start = ends[i++])
            link_siblings(tree, i, order + start, ends[i] - start);
    }
    sonde_err err = ends && order ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    free(ends);
    free(order);
    return err;
}

sonde_err draw_tree_create(const struct draw_frame *root, struct draw_tree **tree) {
    struct draw_tree *created = calloc(1, sizeof *created);
    *tree = NULL;
    if (!created)
        return SONDE_OUT_OF_MEMORY;
    profile_table_init(&created->frames, sizeof(struct draw_frame));
    profile_table_init(&created->nodes, sizeof(struct draw_node));
    uint32_t frame = draw_tree_intern(created, root);
    struct draw_node *node = profile_table_add(&created->nodes, 0);
    if (frame == PROFILE_TABLE_NONE || !node) {
        draw_tree_destroy(created);
        return SONDE_OUT_OF_MEMORY;
    }
    node->frame = frame;
    node->parent = PROFILE_TABLE_NONE;
    *tree = created;
    return SONDE_OK;
}

sonde_err draw_tree_complete(struct draw_tree *tree) {
    draw_tree_add_totals(tree);
    return link_children(tree);
}

static sonde_err fill(struct draw_tree *tree, const struct sonde_profile *profile,
                      const struct draw_tree_options *options) {
    struct draw_frames frames = {0};
    sonde_err err = draw_frames_init(&frames, tree, profile);
    for (size_t i = 0; i < sonde_profile_sample_count(profile) && !err; i++)
        err = add_sample(tree, &frames, profile, options, i);
    draw_frames_finish(&frames);
    return err ? err : draw_tree_complete(tree);
}

struct draw_tree_options draw_tree_options(const struct sonde_draw_options *options) {
    bool is_diff = options->palette == SONDE_PALETTE_DIFF;
    return (struct draw_tree_options){.type_index = options->type_index,
                                      .base_index =
                                          is_diff ? options->base_index : options->type_index,
                                      .merge_threads = !options->split_threads,
                                      .readable_names = !options->full_names,
                                      .no_negatives = true};
}

/* Threads keep their names. */
static sonde_err show_readable_names(struct draw_tree *tree) {
    uint32_t count = 0;
    const char **names = calloc(2 * (size_t)tree->frames.count + 1, sizeof *names);
    if (!names)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < tree->frames.count; i++)
        if (!draw_tree_frame(tree, i)->is_thread)
            names[count++] = draw_tree_frame(tree, i)->name;
    const char **shown = names + tree->frames.count;
    sonde_err err = draw_view_names(names, count, &tree->arena, shown);
    for (uint32_t i = 0; i < tree->frames.count && !err; i++)
        if (!draw_tree_frame(tree, i)->is_thread)
            draw_tree_frame(tree, i)->shown = *shown++;
    free(names);
    return err;
}

sonde_err draw_tree_build(const struct sonde_profile *profile,
                          const struct draw_tree_options *options, struct draw_tree **tree,
                          struct sonde_diag *diag) {
    size_t types = sonde_profile_type_count(profile);
    const struct draw_frame all = {.name = "all", .module = "", .kind = SONDE_FRAME_NOTE};
    *tree = NULL;
    if (options->type_index >= types || options->base_index >= types)
        return sonde_fail(diag, SONDE_INVALID_ARGUMENT, "the profile only has %zu sample types",
                          types);
    sonde_err err = draw_tree_create(&all, tree);
    if (!err)
        err = fill(*tree, profile, options);
    if (!err && options->readable_names)
        err = show_readable_names(*tree);
    if (!err)
        return SONDE_OK;
    draw_tree_destroy(*tree);
    *tree = NULL;
    return sonde_fail(diag, err, "cannot build the call tree: %s", sonde_diag_text(NULL, err));
}

void draw_tree_destroy(struct draw_tree *tree) {
    if (!tree)
        return;
    profile_table_finish(&tree->frames);
    profile_table_finish(&tree->nodes);
    sonde_arena_finish(&tree->arena);
    free(tree);
}

void draw_tree_walk(const struct draw_tree *tree, draw_tree_visit *on_enter,
                    draw_tree_visit *on_leave, void *context) {
    uint32_t at = DRAW_TREE_ROOT;
    for (;;) {
        if (on_enter)
            on_enter(context, at);
        const struct draw_node *node = draw_tree_node(tree, at);
        if (node->first_child) {
            at = node->first_child;
            continue;
        }
        for (;; at = node->parent) {
            node = draw_tree_node(tree, at);
            if (on_leave)
                on_leave(context, at);
            if (at == DRAW_TREE_ROOT)
                return;
            if (node->next_sibling)
                break;
        }
        at = node->next_sibling;
    }
}

struct sum {
    struct draw_tree *tree;
    uint32_t *on_path; /* by frame: how often it is on the path from the root */
};

static void on_sum_enter(void *context, uint32_t number) {
    struct sum *sum = context;
    const struct draw_node *node = draw_tree_node(sum->tree, number);
    struct draw_frame *frame = draw_tree_frame(sum->tree, node->frame);
    frame->flat = draw_add(frame->flat, node->self);
    if (sum->on_path[node->frame]++ == 0)
        frame->cum = draw_add(frame->cum, node->total);
}

static void on_sum_leave(void *context, uint32_t number) {
    struct sum *sum = context;
    sum->on_path[draw_tree_node(sum->tree, number)->frame]--;
}

sonde_err draw_tree_sum(struct draw_tree *tree) {
    struct sum sum = {tree, calloc(tree->frames.count + 1, sizeof(uint32_t))};
    if (!sum.on_path)
        return SONDE_OUT_OF_MEMORY;
    draw_tree_walk(tree, on_sum_enter, on_sum_leave, &sum);
    free(sum.on_path);
    return SONDE_OK;
}
