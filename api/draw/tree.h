/* SPDX-License-Identifier: Apache-2.0
 *
 * The call tree that all pictures and tables are drawn from: the root "all", the thread (unless
 * threads are merged), then the frames from the root of the stack to its leaf. An inlined function
 * has its own frame.
 *
 * A frame is a function (name and module); a node is a frame at one place of the tree. Numbers are
 * dense, and a parent has a lower number than its children, so one backward loop can compute sums.
 * No function recurses, because the input decides how deep stacks are. For api/draw, and for the
 * service that sends trees. Thread safety: one thread at a time. */
#ifndef SONDE_API_DRAW_TREE_H
#define SONDE_API_DRAW_TREE_H

#include "api/draw/draw.h"
#include "api/profile/heap/memory.h"
#include "api/profile/table.h"

#define DRAW_TREE_ROOT      0
#define DRAW_TREE_MAX_DEPTH 2048
#define DRAW_TREE_MAX_NODES (8u << 20)

struct draw_frame {
    const char *name;   /* never empty */
    const char *shown;  /* in this view: `name`, or a readable form of it */
    const char *module; /* base name, "" = none */
    const char *source; /* path of the function's source file, NULL = unknown */
    int64_t start_line; /* of the function in it; 0 = unknown */
    enum sonde_frame_kind kind;
    bool is_thread;
    int64_t flat, cum; /* after draw_tree_sum; recursion counts once in cum */
};

struct draw_node {
    uint32_t frame, parent;             /* PROFILE_TABLE_NONE for the root */
    uint32_t first_child, next_sibling; /* DRAW_TREE_ROOT = none */
    uint32_t depth;
    int64_t total, self;
    int64_t base;   /* total of the base_index type, for differences */
    double sampled; /* samples that self is based on, if options.memory is set */
};

struct draw_tree {
    struct sonde_arena arena;
    struct profile_table frames, nodes;
    int64_t total, base; /* of the root */
};

struct draw_tree_options {
    size_t type_index, base_index;
    bool merge_threads;
    bool no_negatives;                      /* negative values count as 0 */
    bool readable_names;                    /* draw_frame.shown differs from its name */
    const struct sonde_memory_pair *memory; /* NULL: leave draw_node.sampled 0 */
    uint32_t *leaves; /* if not NULL, receives the last node of each of the profile's samples */
};

/* The tree of one value, or with SONDE_PALETTE_DIFF of two, as the caller asked for it; negative
 * values count as 0. */
struct draw_tree_options draw_tree_options(const struct sonde_draw_options *options);

SONDE_MUST_USE sonde_err draw_tree_build(const struct sonde_profile *profile,
                                         const struct draw_tree_options *options,
                                         struct draw_tree **tree, struct sonde_diag *diag);
void draw_tree_destroy(struct draw_tree *tree);
struct draw_node *draw_tree_node(const struct draw_tree *tree, uint32_t number);
struct draw_frame *draw_tree_frame(const struct draw_tree *tree, uint32_t number);
const char *draw_tree_name(const struct draw_tree *tree, uint32_t node);
const char *draw_tree_shown(const struct draw_tree *tree, uint32_t node);
/* The part of base that is not its children's, if the tree was built without negatives. */
int64_t draw_tree_base_self(const struct draw_tree *tree, uint32_t node);

/* Building other trees than draw_tree_build's: create one, walk each sample down with
 * draw_tree_child and add to self (and base) of the last node, then complete it, which computes the
 * totals and sorts siblings by name. `root` is copied. Errors: SONDE_OUT_OF_MEMORY,
 * SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err draw_tree_create(const struct draw_frame *root, struct draw_tree **tree);
/* Returns the number of the equal frame, or of a new one with copied strings; PROFILE_TABLE_NONE
 * when out of memory. The source does not distinguish frames: the first one's is kept. */
uint32_t draw_tree_intern(struct draw_tree *tree, const struct draw_frame *frame);
/* Stores the child of parent with that frame, which is added if there is none. The frames of a
 * stack that is too deep are one node "[deeper frames]". */
SONDE_MUST_USE sonde_err draw_tree_child(struct draw_tree *tree, uint32_t parent, uint32_t frame,
                                         uint32_t *node);
SONDE_MUST_USE sonde_err draw_tree_complete(struct draw_tree *tree);
/* Computes the totals from self, again after it was changed. Set base to a node's own value first.
 */
void draw_tree_add_totals(struct draw_tree *tree);

/* Saturating addition, because values come from outside. */
static inline int64_t draw_add(int64_t a, int64_t b) {
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}

/* Walks depth first, siblings in order. Either callback may be NULL. */
typedef void draw_tree_visit(void *context, uint32_t node);
void draw_tree_walk(const struct draw_tree *tree, draw_tree_visit *on_enter,
                    draw_tree_visit *on_leave, void *context);
/* Fills flat and cum of every frame. */
SONDE_MUST_USE sonde_err draw_tree_sum(struct draw_tree *tree);

#endif
