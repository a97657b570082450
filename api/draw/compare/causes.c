/* SPDX-License-Identifier: Apache-2.0
 *
 * A function that takes a larger share takes it from all others. So a change of a share must also
 * be there without the functions that changed more, in the other direction. */
#include "api/draw/compare/causes.h"
#include "api/profile/verdict/explain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* What is subtracted from the totals before a cause is looked at again. By node. */
struct echo {
    const struct draw_evidence *evidence;
    const struct arrays *arrays;
    bool *is_larger;           /* by frame: it changed by a larger factor, in the other direction */
    bool *has_cause;           /* the cause, or a node below, calls it */
    bool *is_settled;          /* a part of the cause, or already subtracted */
    struct verdict_cell *rest; /* by block */
};

static void mark_larger(struct echo *echo, const struct sonde_comparison_function *const *functions,
                        const struct verdict_cause *causes, size_t count, size_t number) {
    double factor = factor_of(functions[causes[number].function]);
    for (size_t k = 0; k < count; k++) {
        bool is_opposite = (causes[k].change > 0) != (causes[number].change > 0);
        echo->is_larger[causes[k].function] =
            is_opposite && factor_of(functions[causes[k].function]) > factor;
    }
}

/* A caller of the cause cannot be left out, because the cause is a part of it. */
static void mark_callers(struct echo *echo, uint32_t cause) {
    const struct arrays *arrays = echo->arrays;
    size_t nodes = echo->evidence->tree->nodes.count;
    memset(echo->has_cause, 0, nodes * sizeof *echo->has_cause);
    for (size_t i = nodes - 1; i > DRAW_TREE_ROOT; i--) {
        echo->has_cause[i] |= arrays->functions[i] == cause;
        echo->has_cause[arrays->parents[i]] |= echo->has_cause[i];
    }
}

/* The totals without the functions that changed by a larger factor, in the other direction. Parents
 * come before their children. */
static void subtract_larger(struct echo *echo, uint32_t cause) {
    const struct draw_evidence *evidence = echo->evidence;
    const struct arrays *arrays = echo->arrays;
    size_t blocks = evidence->blocks;
    memcpy(echo->rest, &evidence->total[DRAW_TREE_ROOT], blocks * sizeof *echo->rest);
    mark_callers(echo, cause);
    echo->is_settled[DRAW_TREE_ROOT] = false;
    for (size_t i = DRAW_TREE_ROOT + 1; i < evidence->tree->nodes.count; i++) {
        bool is_done = echo->is_settled[arrays->parents[i]];
        bool is_part = !is_done && !echo->has_cause[i] && echo->is_larger[arrays->functions[i]];
        echo->is_settled[i] = is_done || is_part || arrays->functions[i] == cause;
        for (size_t block = 0; is_part && block < blocks; block++)
            verdict_cell_subtract(&echo->rest[block], &evidence->total[i * blocks + block]);
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

static void echo_finish(struct echo *echo) {
    free(echo->is_larger);
    free(echo->has_cause);
    free(echo->is_settled);
    free(echo->rest);
}

static bool echo_init(struct echo *echo, const struct draw_evidence *evidence,
                      const struct arrays *arrays) {
    size_t nodes = evidence->tree->nodes.count;
    *echo = (struct echo){.evidence = evidence,
                          .arrays = arrays,
                          .is_larger = calloc(evidence->tree->frames.count + 1, sizeof(bool)),
                          .has_cause = calloc(nodes + 1, sizeof(bool)),
                          .is_settled = calloc(nodes + 1, sizeof(bool)),
                          .rest = calloc(evidence->blocks + 1, sizeof(struct verdict_cell))};
    return echo->is_larger && echo->has_cause && echo->is_settled && echo->rest;
}

/* Leaves the causes that remain, in their order. */
static sonde_err drop_echoes(const struct draw_evidence *evidence, const struct arrays *arrays,
                             const struct sonde_comparison_function *const *functions,
                             const struct verdict_cell *totals, double confidence,
                             struct verdict_cause *causes, size_t *count) {
    bool is_dropped[VERDICT_MAX_CAUSES] = {false};
    struct echo echo;
    size_t kept = 0;
    bool has_memory = echo_init(&echo, evidence, arrays);
    for (size_t i = 0; i < *count && has_memory; i++) {
        mark_larger(&echo, functions, causes, *count, i);
        subtract_larger(&echo, causes[i].function);
        is_dropped[i] = is_echo(evidence, totals, &causes[i], confidence, echo.rest);
    }
    for (size_t i = 0; i < *count; i++)
        if (!is_dropped[i])
            causes[kept++] = causes[i];
    *count = kept;
    echo_finish(&echo);
    return has_memory ? SONDE_OK : SONDE_OUT_OF_MEMORY;
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
    size_t count = 0;
    sonde_err err = verdict_explain(&changes, causes, &count);
    if (!err && comparison->measure == VERDICT_SHARE)
        err = drop_echoes(evidence, arrays, functions, totals, comparison->confidence, causes,
                          &count);
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
