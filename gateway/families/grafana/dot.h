/* SPDX-License-Identifier: Apache-2.0
 *
 * A call tree as a graph of functions in Graphviz's language. Thread safety: any thread. */
#ifndef SONDE_GATEWAY_FAMILIES_GRAFANA_DOT_H
#define SONDE_GATEWAY_FAMILIES_GRAFANA_DOT_H

#include "gateway/families/grafana/call_tree.h"

#define DOT_FUNCTIONS 80 /* at most; those with the largest totals */

/* The tree must have passed call_tree_flamegraph. The process ends when memory runs out. */
void dot_append(struct sonde_buf *out, const struct call_tree *tree);

#endif
