/* SPDX-License-Identifier: Apache-2.0 */
#include "api/draw/compare/comparison.h"
#include "api/draw/compare/causes.h"
#include "api/draw/compare/evidence.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* While a comparison is made. */
struct making {
    struct sonde_comparison *comparison;
    struct draw_evidence evidence;
    struct verdict_cell *self, *total;                  /* by frame and block */
    const struct sonde_comparison_function **functions; /* by frame */
};

/* ---- Changes ---- */

/* The root is not one. */
static bool is_function(const struct draw_tree *tree, uint32_t frame) {
    return frame != draw_tree_node(tree, DRAW_TREE_ROOT)->frame;
}

static void set_function(const struct making *making, uint32_t frame,
                         struct sonde_comparison_function *function) {
    const struct draw_frame *of = draw_tree_frame(making->comparison->tree, frame);
    double confidence = making->comparison->confidence;
    function->name = of->name;
    function->module = of->module;
    for (int measure = 0; measure < 2; measure++) {
        draw_evidence_change(&making->evidence, making->self, frame, (enum verdict_measure)measure,
                             confidence, &function->self[measure]);
        draw_evidence_change(&making->evidence, making->total, frame, (enum verdict_measure)measure,
                             confidence, &function->total[measure]);
    }
}

/* Of the self and total changes of all functions, in turn. */
static struct verdict_change *change_of(struct sonde_comparison *comparison, size_t number,
                                        int measure) {
    struct sonde_comparison_function *function = &comparison->functions[number / 2];
    return number % 2 ? &function->total[measure] : &function->self[measure];
}

/* Own values and totals are judged together, because readers look at both. */
static sonde_err judge(struct sonde_comparison *comparison) {
    size_t count = 2 * comparison->function_count;
    struct verdict_change *changes = calloc(count + 1, sizeof *changes);
    sonde_err err = changes ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    for (int measure = 0; measure < 2 && !err; measure++) {
        for (size_t i = 0; i < count; i++)
            changes[i] = *change_of(comparison, i, measure);
        err = verdict_judge(changes, count, comparison->confidence);
        for (size_t i = 0; i < count; i++)
            *change_of(comparison, i, measure) = changes[i];
    }
    free(changes);
    return err;
}

/* ---- Order ---- */

/* 0 = the function itself changed for certain, 1 = what it calls did, 2 = neither. */
static int rank(const struct sonde_comparison_function *function, enum verdict_measure measure) {
    return sonde_is_certain(&function->self[measure])    ? 0
           : sonde_is_certain(&function->total[measure]) ? 1
                                                         : 2;
}

static int compare_sizes(double x, double y) {
    return (fabs(x) < fabs(y)) - (fabs(x) > fabs(y));
}

static int compare_names(const struct sonde_comparison_function *x,
                         const struct sonde_comparison_function *y) {
    int order = strcmp(x->name, y->name);
    return order ? order : strcmp(x->module, y->module);
}

static int compare(const void *a, const void *b, void *context) {
    const struct sonde_comparison_function *x = a, *y = b;
    enum verdict_measure measure = *(const enum verdict_measure *)context;
    int order = rank(x, measure) - rank(y, measure);
    if (order == 0)
        order = compare_sizes(x->self[measure].change, y->self[measure].change);
    if (order == 0)
        order = compare_sizes(x->total[measure].change, y->total[measure].change);
    return order ? order : compare_names(x, y);
}

static int compare_by_name(const void *a, const void *b) {
    return compare_names(*(const struct sonde_comparison_function *const *)a,
                         *(const struct sonde_comparison_function *const *)b);
}

static sonde_err sort(struct sonde_comparison *comparison) {
    size_t count = comparison->function_count;
    qsort_r(comparison->functions, count, sizeof *comparison->functions, compare,
            &comparison->measure);
    comparison->by_name = calloc(count + 1, sizeof *comparison->by_name);
    if (!comparison->by_name)
        return SONDE_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        comparison->by_name[i] = &comparison->functions[i];
    qsort(comparison->by_name, count, sizeof *comparison->by_name, compare_by_name);
    return SONDE_OK;
}

/* ---- Making ---- */

static sonde_err make_functions(struct making *making) {
    struct sonde_comparison *comparison = making->comparison;
    uint32_t frames = comparison->tree->frames.count;
    sonde_err err = draw_evidence_frames(&making->evidence, &making->self, &making->total);
    comparison->functions = calloc(frames + 1, sizeof *comparison->functions);
    making->functions = calloc(frames + 1, sizeof *making->functions);
    if (err || !comparison->functions || !making->functions)
        return SONDE_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < frames; i++) {
        struct sonde_comparison_function *function =
            &comparison->functions[comparison->function_count];
        if (!is_function(comparison->tree, i))
            continue;
        function->frame = i;
        set_function(making, i, function);
        comparison->function_count++;
    }
    err = judge(comparison);
    if (!err)
        err = sort(comparison);
    if (err)
        return err;
    for (size_t i = 0; i < comparison->function_count; i++)
        making->functions[comparison->functions[i].frame] = &comparison->functions[i];
    return SONDE_OK;
}

static void set_whole(struct making *making) {
    struct sonde_comparison *comparison = making->comparison;
    const struct draw_evidence *evidence = &making->evidence;
    draw_evidence_change(evidence, evidence->total, DRAW_TREE_ROOT, VERDICT_AMOUNT,
                         comparison->confidence, &comparison->whole);
    comparison->least_share_change =
        verdict_least_change(evidence->sides, 0.5, comparison->confidence);
    for (int side = 0; side < 2; side++)
        for (size_t i = 0; i < evidence->sides[side].block_count; i++)
            comparison->samples[side] += evidence->sides[side].totals[i].samples;
}

static sonde_err make(struct making *making, const struct sonde_blocks *blocks,
                      struct sonde_diag *diag) {
    struct sonde_comparison *comparison = making->comparison;
    struct draw_tree_options options = {
        .base_index = 1, .merge_threads = true, .no_negatives = true};
    uint32_t *leaves = calloc(sonde_profile_sample_count(blocks->both) + 1, sizeof *leaves);
    options.leaves = leaves;
    sonde_err err = leaves ? draw_tree_build(blocks->both, &options, &comparison->tree, diag)
                           : SONDE_OUT_OF_MEMORY;
    if (!err)
        err = draw_evidence_init(&making->evidence, comparison->tree, leaves, blocks);
    if (err == SONDE_TOO_LARGE)
        err = sonde_fail(diag, err,
                         "%u functions in call stacks of %zu profiles are too many to compare; "
                         "compare fewer or shorter ones",
                         comparison->tree->nodes.count, blocks->counts[0] + blocks->counts[1]);
    if (!err)
        err = make_functions(making);
    if (!err) {
        set_whole(making);
        err =
            comparison_find_causes(comparison, &making->evidence, making->functions, making->total);
    }
    free(leaves);
    return err;
}

static void making_finish(struct making *making) {
    draw_evidence_finish(&making->evidence);
    free(making->self);
    free(making->total);
    free(making->functions);
}

sonde_err sonde_comparison_create(const struct sonde_blocks_side sides[2],
                                  const struct sonde_comparison_options *options,
                                  struct sonde_comparison **comparison, struct sonde_diag *diag) {
    const struct sonde_comparison_options defaults = {0}, *wanted = options ? options : &defaults;
    struct making making = {.comparison = calloc(1, sizeof *making.comparison)};
    struct sonde_blocks blocks;
    *comparison = NULL;
    if (!making.comparison)
        return sonde_fail(diag, SONDE_OUT_OF_MEMORY, "out of memory");
    making.comparison->measure = wanted->measure;
    making.comparison->confidence = wanted->confidence > 0 ? wanted->confidence : DRAW_CONFIDENCE;
    sonde_err err = sonde_profile_compare_blocks(sides, wanted->type, &blocks, diag);
    if (!err) {
        making.comparison->is_counted = blocks.is_counted;
        making.comparison->has_verdicts = sonde_blocks_have_verdicts(&blocks);
        making.comparison->is_correlated = blocks.is_correlated;
        memcpy(making.comparison->blocks, blocks.counts, sizeof blocks.counts);
        making.comparison->type = sonde_profile_type(blocks.both, 0);
        err = make(&making, &blocks, diag);
        making.comparison->both = blocks.both;
        blocks.both = NULL;
        if (err == SONDE_OUT_OF_MEMORY)
            err = sonde_fail(diag, err, "out of memory");
    }
    sonde_blocks_finish(&blocks);
    making_finish(&making);
    if (err)
        sonde_comparison_destroy(making.comparison);
    else
        *comparison = making.comparison;
    return err;
}

void sonde_comparison_destroy(struct sonde_comparison *comparison) {
    if (!comparison)
        return;
    free(comparison->functions);
    free(comparison->by_name);
    free(comparison->causes);
    draw_tree_destroy(comparison->tree);
    sonde_profile_destroy(comparison->both);
    free(comparison);
}

const struct sonde_comparison_function *
sonde_comparison_find(const struct sonde_comparison *comparison, const char *name,
                      const char *module) {
    const struct sonde_comparison_function wanted = {.name = name, .module = module},
                                           *key = &wanted;
    const struct sonde_comparison_function **found =
        bsearch(&key, comparison->by_name, comparison->function_count, sizeof *comparison->by_name,
                compare_by_name);
    return found ? *found : NULL;
}

double sonde_comparison_whole(const struct sonde_comparison *comparison) {
    const struct verdict_change *whole = &comparison->whole;
    if (comparison->measure == VERDICT_SHARE)
        return 1;
    return whole->before > 0 ? whole->before : whole->after;
}

bool sonde_comparison_exceeds(const struct sonde_comparison *comparison,
                              const struct sonde_comparison_function *function, double part) {
    const struct verdict_change *change = &function->total[comparison->measure];
    return change->verdict == VERDICT_MORE &&
           change->low > part * sonde_comparison_whole(comparison);
}
