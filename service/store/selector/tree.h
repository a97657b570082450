/* SPDX-License-Identifier: Apache-2.0
 *
 * What a selector owns. */
#ifndef SONDE_SERVICE_STORE_SELECTOR_TREE_H
#define SONDE_SERVICE_STORE_SELECTOR_TREE_H

#include "api/bytes.h"
#include "service/store/selector/regexp.h"
#include "service/store/selector/selector.h"

struct selector {
    struct sonde_arena arena; /* nodes, names and values */
    const struct selector_node *root;
    size_t node_count, regexp_count;
    struct regexp *regexps[SELECTOR_MAX_NODES];
};

/* Whether the text fits LIKE's pattern. Time: at most the product of both lengths. */
bool selector_like(const char *pattern, const char *text);

#endif
