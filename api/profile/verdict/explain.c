/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions are tried from the one with the smallest change to the largest, so callees come before
 * their callers in most trees. Where they do not, a second pass removes callers that callees have
 * explained since. */
#include "api/profile/verdict/explain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST  0.5
#define NO_ID UINT32_MAX

struct explain {
    const struct verdict_tree *tree;
    double *totals;    /* by node: change with all below */
    double *explained; /* by node: change that causes at the node and below explain */
    bool *is_topmost;  /* by node: the function is not among its own callers */
    bool *is_cause;    /* by function */
    struct verdict_cause *candidates; /* by function first, then the chosen ones */
};

static void add_totals(struct explain *explain) {
    const struct verdict_tree *tree = explain->tree;
    memcpy(explain->totals, tree->changes, tree->node_count * sizeof *explain->totals);
    for (size_t i = tree->node_count - 1; i > 0; i--)
        explain->totals[tree->parents[i]] += explain->totals[i];
}

static bool find_topmost(const struct verdict_tree *tree, uint32_t node) {
    for (uint32_t at = node; at > 0;) {
        at = tree->parents[at];
        if (tree->functions[at] == tree->functions[node])
            return false;
    }
    return true;
}

static void add_node(struct explain *explain, uint32_t node) {
    struct verdict_cause *cause = &explain->candidates[explain->tree->functions[node]];
    double change = explain->totals[node];
    cause->change += change;
    if (cause->node == NO_ID || fabs(change) > fabs(explain->totals[cause->node]))
        cause->node = node;
}

static int by_size(const void *a, const void *b) {
    const struct verdict_cause *x = a, *y = b;
    double first = fabs(x->change), second = fabs(y->change);
    return first != second ? (first < second ? 1 : -1)
                           : (x->function > y->function) - (x->function < y->function);
}

/* Returns the number of functions that changed, the largest change first. */
static size_t find_candidates(struct explain *explain) {
    const struct verdict_tree *tree = explain->tree;
    size_t count = 0;
    for (size_t i = 0; i < tree->function_count; i++)
        explain->candidates[i] = (struct verdict_cause){.function = (uint32_t)i, .node = NO_ID};
    for (uint32_t i = 0; i < tree->node_count; i++) {
        explain->is_topmost[i] = tree->is_changed[tree->functions[i]] && find_topmost(tree, i);
        if (explain->is_topmost[i])
            add_node(explain, i);
    }
    for (size_t i = 0; i < tree->function_count; i++)
        if (explain->candidates[i].node != NO_ID)
            explain->candidates[count++] = explain->candidates[i];
    qsort(explain->candidates, count, sizeof *explain->candidates, by_size);
    return count < VERDICT_MAX_CAUSES ? count : VERDICT_MAX_CAUSES;
}

static void add_explained(struct explain *explain) {
    const struct verdict_tree *tree = explain->tree;
    memset(explain->explained, 0, tree->node_count * sizeof *explain->explained);
    for (size_t i = tree->node_count; i > 0; i--) {
        size_t node = i - 1;
        if (explain->is_cause[tree->functions[node]])
            explain->explained[node] = explain->totals[node];
        if (node > 0)
            explain->explained[tree->parents[node]] += explain->explained[node];
    }
}

/* Whether most of the change remains when the other causes are subtracted. */
static bool explains(struct explain *explain, const struct verdict_cause *candidate) {
    const struct verdict_tree *tree = explain->tree;
    double rest = candidate->change;
    explain->is_cause[candidate->function] = false;
    add_explained(explain);
    for (size_t i = 0; i < tree->node_count; i++)
        if (tree->functions[i] == candidate->function && explain->is_topmost[i])
            rest -= explain->explained[i];
    return rest / candidate->change >= MOST;
}

static void choose(struct explain *explain, size_t count) {
    for (size_t i = count; i > 0; i--) {
        const struct verdict_cause *candidate = &explain->candidates[i - 1];
        explain->is_cause[candidate->function] = explains(explain, candidate);
    }
    for (size_t i = 0; i < count; i++) {
        const struct verdict_cause *candidate = &explain->candidates[i];
        if (explain->is_cause[candidate->function])
            explain->is_cause[candidate->function] = explains(explain, candidate);
    }
}

sonde_err verdict_explain(const struct verdict_tree *tree,
                          struct verdict_cause causes[VERDICT_MAX_CAUSES], size_t *count) {
    size_t nodes = tree->node_count, functions = tree->function_count;
    struct explain explain = {.tree = tree,
                              .totals = calloc(nodes + 1, sizeof(double)),
                              .explained = calloc(nodes + 1, sizeof(double)),
                              .is_topmost = calloc(nodes + 1, sizeof(bool)),
                              .is_cause = calloc(functions + 1, sizeof(bool)),
                              .candidates = calloc(functions + 1, sizeof *explain.candidates)};
    bool has_memory = explain.totals && explain.explained && explain.is_topmost &&
                      explain.is_cause && explain.candidates;
    *count = 0;
    if (has_memory && nodes > 0) {
        add_totals(&explain);
        size_t candidates = find_candidates(&explain);
        choose(&explain, candidates);
        for (size_t i = 0; i < candidates; i++)
            if (explain.is_cause[explain.candidates[i].function])
                causes[(*count)++] = explain.candidates[i];
    }
    free(explain.totals);
    free(explain.explained);
    free(explain.is_topmost);
    free(explain.is_cause);
    free(explain.candidates);
    return has_memory ? SONDE_OK : SONDE_OUT_OF_MEMORY;
}
