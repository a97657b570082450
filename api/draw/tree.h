/* SPDX-License-Identifier: Apache-2.0
 *
 * The call tree every picture and table is drawn from: root "all", then (unless merged) the thread,
 * then frames from the root of the stack to its leaf; an inlined function is a frame of its own.
 *
 * Frames are what a reader sees as one thing (name and module); nodes are frames in their place.
 * Numbers are dense and a parent's number is below its children's, so sums are one loop backwards.
 * Nothing recurses: stacks are as deep as hostile input wants. Internal to api/draw. Thread safety:
 * one thread at a time. */
#ifndef SONDE_API_DRAW_TREE_H
#define SONDE_API_DRAW_TREE_H

#include "api/draw/draw.h"
#include "api/profile/memory.h"
#include "api/profile/table.h"

#define DRAW_TREE_ROOT      0
#define DRAW_TREE_MAX_DEPTH 2048
#define DRAW_TREE_MAX_NODES (8u << 20)

struct draw_frame {
    const char *name;   /* never empty */
    const char *module; /* base name, "" = none */
    enum sonde_frame_kind kind;
    bool is_thread;
    int64_t flat, cum; /* after draw_tree_sum; recursion counts once in cum */
};

struct draw_node {
    uint32_t frame, parent;             /* PROFILE_TABLE_NONE: the root */
    uint32_t first_child, next_sibling; /* DRAW_TREE_ROOT = none */
    uint32_t depth;
    int64_t total, self;
    int64_t base;   /* total in the other sample type, for differences */
    double sampled; /* samples that self rests on, when asked for */
};

struct draw_tree {
    struct sonde_arena arena;
    struct profile_table frames, nodes;
    int64_t total, base; /* of the root */
};

struct draw_tree_options {
    size_t type_index, base_index;
    bool merge_threads;
    bool no_negatives;                      /* a negative value counts as 0 */
    const struct sonde_memory_pair *memory; /* not NULL: fill draw_node.sampled */
};

SONDE_MUST_USE sonde_err draw_tree_build(const struct sonde_profile *profile,
                                         const struct draw_tree_options *options,
                                         struct draw_tree **tree, struct sonde_diag *diag);
void draw_tree_destroy(struct draw_tree *tree);
struct draw_node *draw_tree_node(const struct draw_tree *tree, uint32_t number);
struct draw_frame *draw_tree_frame(const struct draw_tree *tree, uint32_t number);
const char *draw_tree_name(const struct draw_tree *tree, uint32_t node);

/* A sum that stops at the ends of int64: values may be anybody's. */
static inline int64_t draw_add(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

/* Depth first, siblings in order. Either may be NULL. */
typedef void draw_tree_visit(void *context, uint32_t node);
void draw_tree_walk(const struct draw_tree *tree, draw_tree_visit *on_enter,
                    draw_tree_visit *on_leave, void *context);
/* Fills flat and cum of every frame. */
SONDE_MUST_USE sonde_err draw_tree_sum(struct draw_tree *tree);

#endif
