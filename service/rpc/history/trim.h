/* SPDX-License-Identifier: Apache-2.0
 *
 * A call tree with a bounded number of nodes, in depth-first order. The nodes with the largest
 * totals stay; the children that a node loses become one child "other". Thread safety: one thread
 * at a time. */
#ifndef SONDE_SERVICE_RPC_HISTORY_TRIM_H
#define SONDE_SERVICE_RPC_HISTORY_TRIM_H

#include "api/draw/tree.h"

#define TRIM_OTHER UINT32_MAX

struct trimmed_node {
    uint32_t node;   /* of the tree; TRIM_OTHER = the sum of its parent's lost children */
    uint32_t parent; /* index of a trimmed node; the root's is 0 */
    int64_t self, total, base_self, base_total;
};

struct trimmed_tree {
    struct trimmed_node *nodes; /* the caller frees them */
    size_t count;
    uint64_t lost; /* nodes of the tree that are in some "other" */
};

/* max_nodes > 0; nodes "other" do not count. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err trim_tree(const struct draw_tree *tree, uint32_t max_nodes,
                                   struct trimmed_tree *trimmed);

#endif
