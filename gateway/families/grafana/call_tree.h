/* SPDX-License-Identifier: Apache-2.0
 *
 * A call tree as History sends it, collected from its messages and checked, and the levels of a
 * flame graph made of it. Thread safety: one thread at a time per tree. */
#ifndef SONDE_GATEWAY_FAMILIES_GRAFANA_CALL_TREE_H
#define SONDE_GATEWAY_FAMILIES_GRAFANA_CALL_TREE_H

#include "api/bytes.h"
#include "api/error.h"
#include "proto/querier/v1/querier.pb-c.h"
#include "proto/sonde/v1/history.pb-c.h"

#define CALL_TREE_MAX_NODES 262144
#define CALL_TREE_MAX_BYTES (64u << 20) /* of names */

/* Zeroed memory is an empty tree. */
struct call_tree {
    struct sonde_arena names;
    struct sonde_buf functions;             /* char * */
    struct sonde_buf function, parent;      /* uint32_t, of nodes in depth-first order */
    struct sonde_buf self, total;           /* int64_t */
    struct sonde_buf base_self, base_total; /* of trees with a base */
    size_t count, function_count;
};

/* Adds a message's nodes. SONDE_PROTOCOL if the columns contradict each other, SONDE_TOO_LARGE. */
SONDE_MUST_USE sonde_err call_tree_add(struct call_tree *tree, const Sonde__V1__Tree *message,
                                       struct sonde_diag *diag);
void call_tree_finish(struct call_tree *tree);

/* A message whose parts live in the arena and borrow the tree's names. With a base the groups have
 * seven values instead of four; left is the base. The root's name is "total". An empty tree has no
 * levels. */
SONDE_MUST_USE sonde_err call_tree_flamegraph(const struct call_tree *tree, bool has_base,
                                              struct sonde_arena *arena,
                                              Querier__V1__FlameGraphDiff *graph,
                                              struct sonde_diag *diag);

#endif
