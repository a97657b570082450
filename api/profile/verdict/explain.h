/* SPDX-License-Identifier: Apache-2.0
 *
 * Which functions explain the difference between two call trees. The change of a node is that of
 * its own value plus those of its children, so a change in one function appears again in all its
 * callers. A function explains a change if at least half of it remains without what the functions
 * below it explain. Of functions on one path, that is the deepest one.
 *
 * A function whose changes at different places cancel each other is not found. Thread safety: any
 * thread. */
#ifndef SONDE_API_PROFILE_VERDICT_EXPLAIN_H
#define SONDE_API_PROFILE_VERDICT_EXPLAIN_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VERDICT_MAX_CAUSES 64

/* Of two call trees with the same nodes. A parent has a lower number than its children; node 0 is
 * the root. */
struct verdict_tree {
    size_t node_count, function_count;
    const uint32_t *parents, *functions; /* by node; parents[0] is not read */
    const double *changes;               /* by node, of its own value */
    const bool *is_changed;              /* by function: its total is MORE or LESS */
};

struct verdict_cause {
    uint32_t function, node; /* the node with the largest part of the change */
    double change;           /* of the function with all it calls */
};

/* Writes the functions that explain the changes to causes, the largest change first, and their
 * number to count. Only the VERDICT_MAX_CAUSES functions with the largest changes are considered.
 * Errors: SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err verdict_explain(const struct verdict_tree *tree,
                                         struct verdict_cause causes[VERDICT_MAX_CAUSES],
                                         size_t *count);

#endif
