/* SPDX-License-Identifier: Apache-2.0
 *
 * A function that takes a larger share takes it from all others. So a change of a share must also
 * be there without the functions that changed more, in the other direction. */
#include "api/draw/compare/causes.h"
#include "api/profile/verdict/explain.h"

#include <math.h>
#include <stdlib.h>

/* By node. */
struct arrays {
    uint32_t *parents, *functions;
    double *changes;
    bool *is_changed; /* by frame */
};

static double sum_values(const struct verdict_cell *cells, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += cells[i].value;
    return sum;
}

static double sum_exposures(const struct verdict_side *side) {
    double sum = 0;
    for (size_t i = 0; i < side->block_count; i++)
        sum += side->exposures ? side->exposures[i] : 1;
    return sum;
}

/* What the values of a side are divided by. */
static double whole_of(const struct verdict_side *side, enum verdict_measure measure) {
    double whole = measure == VERDICT_SHARE ? sum_values(side->totals, side->block_count)
                                            : sum_exposures(side);
    return whole > 0 ? whole : 1;
}

static void fill(struct arrays *arrays, const struct sonde_comparison *comparison,
                 const struct draw_evidence *evidence,
                 const struct sonde_comparison_function *const *functions) {
    const struct draw_tree *tree = evidence->tree;
    const struct verdict_side *sides = evidence->sides;
    double wholes[] = {whole_of(&sides[0], comparison->measure),
                       whole_of(&sides[1], comparison->measure)};
    for (uint32_t i = 0; i < tree->nodes.count; i++) {
        const struct draw_node *node = draw_tree_node(tree, i);
        const struct verdict_cell *base = &evidence->self[i * evidence->blocks];
        arrays->parents[i] = i == DRAW_TREE_ROOT ? 0 : node->parent;
        arrays->functions[i] = node->frame;
        arrays->changes[i] =
            sum_values(base + sides[0].block_count, sides[1].block_count) / wholes[1] -
            sum_values(base, sides[0].block_count) / wholes[0];
    }
    for (uint32_t i = 0; i < tree->frames.count; i++)
        arrays->is_changed[i] =
            functions[i] && sonde_is_certain(&functions[i]->total[comparison->measure]);
}

/* How large the factor is by which the share changed; INFINITY if the function is new or gone. */
static double factor_of(const struct sonde_comparison_function *function) {
    const struct verdict_change *change = &function->total[VERDICT_SHARE];
    return change->before > 0 && change->after > 0 ? fabs(log(change->after / change->before))
                                                   : INFINITY;
}

/* The totals without the functions that changed by a larger factor, in the other direction. */
static void subtract_larger(const struct draw_evidence *evidence,
                            const struct sonde_comparison_function *const *functions,
                            const struct verdict_cell *totals, const struct verdict_cause *causes,
                            size_t count, size_t number, struct verdict_cell *rest) {
    double factor = factor_of(functions[causes[number].function]);
    for (size_t i = 0; i < evidence->blocks; i++)
        rest[i] = evidence->total[DRAW_TREE_ROOT + i];
    for (size_t k = 0; k < count; k++) {
        const struct verdict_cell *part = &totals[causes[k].function * evidence->blocks];
        bool is_opposite = (causes[k].change > 0) != (causes[number].change > 0);
        if (!is_opposite || factor_of(functions[causes[k].function]) <= factor)
            continue;
        for (size_t i = 0; i < evidence->blocks; i++) {
            rest[i].value -= part[i].value;
            rest[i].samples -= part[i].samples;
            rest[i].squares -= part[i].squares;
        }
    }
}

/* Whether the change is gone, or has the other direction, without the larger ones. */
static bool is_echo(const struct draw_evidence *evidence, const struct verdict_cell *totals,
                    const struct verdict_cause *cause, double confidence,
                    const struct verdict_cell *rest) {
    struct draw_evidence without = *evidence;
    struct verdict_change change;
    without.sides[0].totals = rest;
    without.sides[1].totals = rest + evidence->sides[0].block_count;
    draw_evidence_change(&without, totals, cause->function, VERDICT_SHARE, confidence, &change);
    return change.p > 1 - confidence || (change.change > 0) != (cause->change > 0);
}

/* Returns the number of causes that remain, in their order. */
static size_t drop_echoes(const struct sonde_comparison *comparison,
                          const struct draw_evidence *evidence,
                          const struct sonde_comparison_function *const *functions,
                          const struct verdict_cell *totals, struct verdict_cause *causes,
                          size_t count, struct verdict_cell *rest) {
    bool is_dropped[VERDICT_MAX_CAUSES] = {false};
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        subtract_larger(evidence, functions, totals, causes, count, i, rest);
        is_dropped[i] = is_echo(evidence, totals, &causes[i], comparison->confidence, rest);
    }
    for (size_t i = 0; i < count; i++)
        if (!is_dropped[i])
            causes[kept++] = causes[i];
    return kept;
}

static void set_cause(struct sonde_comparison_cause *cause, const struct draw_tree *tree,
                      const struct verdict_cause *found,
                      const struct sonde_comparison_function *function) {
    uint32_t at = draw_tree_node(tree, found->node)->parent;
    *cause = (struct sonde_comparison_cause){.function = function};
    for (; at != DRAW_TREE_ROOT && cause->caller_count < SONDE_COMPARISON_CALLERS;
         at = draw_tree_node(tree, at)->parent)
        cause->callers[cause->caller_count++] = draw_tree_name(tree, at);
    cause->has_more_callers = at != DRAW_TREE_ROOT;
}

static sonde_err explain(struct sonde_comparison *comparison, const struct draw_evidence *evidence,
                         const struct arrays *arrays,
                         const struct sonde_comparison_function *const *functions,
                         const struct verdict_cell *totals) {
    const struct draw_tree *tree = evidence->tree;
    const struct verdict_tree changes = {.node_count = tree->nodes.count,
                                         .function_count = tree->frames.count,
                                         .parents = arrays->parents,
                                         .functions = arrays->functions,
                                         .changes = arrays->changes,
                                         .is_changed = arrays->is_changed};
    struct verdict_cause causes[VERDICT_MAX_CAUSES];
    struct verdict_cell *rest = calloc(evidence->blocks, sizeof *rest);
    size_t count = 0;
    sonde_err err = rest ? verdict_explain(&changes, causes, &count) : SONDE_OUT_OF_MEMORY;
    if (!err && comparison->measure == VERDICT_SHARE)
        count = drop_echoes(comparison, evidence, functions, totals, causes, count, rest);
    free(rest);
    comparison->causes = err ? NULL : calloc(count + 1, sizeof *comparison->causes);
    if (!comparison->causes)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        set_cause(&comparison->causes[i], tree, &causes[i], functions[causes[i].function]);
    comparison->cause_count = count;
    return SONDE_OK;
}

sonde_err comparison_find_causes(struct sonde_comparison *comparison,
                                 const struct draw_evidence *evidence,
                                 const struct sonde_comparison_function *const *functions,
                                 const struct verdict_cell *totals) {
    size_t nodes = evidence->tree->nodes.count, frames = evidence->tree->frames.count;
    struct arrays arrays = {.parents = calloc(nodes + 1, sizeof(uint32_t)),
                            .functions = calloc(nodes + 1, sizeof(uint32_t)),
                            .changes = calloc(nodes + 1, sizeof(double)),
                            .is_changed = calloc(frames + 1, sizeof(bool))};
    sonde_err err = SONDE_OUT_OF_MEMORY;
    if (arrays.parents && arrays.functions && arrays.changes && arrays.is_changed) {
        fill(&arrays, comparison, evidence, functions);
        err = explain(comparison, evidence, &arrays, functions, totals);
    }
    free(arrays.parents);
    free(arrays.functions);
    free(arrays.changes);
    free(arrays.is_changed);
    return err;
}
