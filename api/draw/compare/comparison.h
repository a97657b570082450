/* SPDX-License-Identifier: Apache-2.0
 *
 * Compares two sides, each one profile or several (runs, windows), function by function: how much
 * each one changed, how sure that is (api/profile/verdict/verdict.h), and which functions explain
 * the changes. Threads are merged. Thread safety: any thread; the profiles must not change
 * meanwhile. */
#ifndef SONDE_API_DRAW_COMPARE_COMPARISON_H
#define SONDE_API_DRAW_COMPARE_COMPARISON_H

#include "api/draw/draw.h"
#include "api/profile/diff/blocks.h"

#define SONDE_COMPARISON_CALLERS 8

struct sonde_comparison_options {
    const char *type;             /* sample type; NULL = the default */
    double confidence;            /* 0 = 0.95 */
    enum verdict_measure measure; /* decides the order, and which functions explain the change */
};

/* Changes are by enum verdict_measure. Amounts are in the sample type's unit, per exposure. */
struct sonde_comparison_function {
    const char *name, *module; /* module: base name, "" = none */
    uint32_t frame;            /* number in the tree */
    struct verdict_change self[2];
    struct verdict_change total[2]; /* with all that it called */
};

/* A function that explains a change, the deepest one. */
struct sonde_comparison_cause {
    const struct sonde_comparison_function *function;
    const char *callers[SONDE_COMPARISON_CALLERS]; /* of its largest part, the innermost first */
    size_t caller_count;
    bool has_more_callers;
};

struct sonde_comparison {
    struct sonde_comparison_function *functions;      /* certain changes first, then by size */
    const struct sonde_comparison_function **by_name; /* the same, by name and module */
    size_t function_count;
    struct sonde_comparison_cause *causes; /* the largest change first */
    size_t cause_count;
    struct verdict_change whole; /* the amount of all functions together; not judged */
    double samples[2];           /* number of samples, base and new */
    double least_share_change;   /* what a function of half the total must change by to be seen */
    size_t blocks[2];            /* base and new, after neighbours were joined */
    bool is_correlated;          /* as in sonde_blocks */
    bool is_counted;             /* numbers of samples are known */
    bool has_verdicts;           /* is_counted, or several blocks on each side */
    enum verdict_measure measure;
    double confidence;
    struct sonde_value_type type; /* borrows from `both` */
    struct sonde_profile *both;
    struct draw_tree *tree; /* owns the names */
};

/* Errors: those of sonde_profile_compare, and SONDE_TOO_LARGE if there are too many functions and
 * profiles. The caller destroys *comparison, which is NULL on failure. options may be NULL. */
SONDE_MUST_USE sonde_err sonde_comparison_create(const struct sonde_blocks_side sides[2],
                                                 const struct sonde_comparison_options *options,
                                                 struct sonde_comparison **comparison,
                                                 struct sonde_diag *diag);
void sonde_comparison_destroy(struct sonde_comparison *comparison);
/* NULL if there is no such function. */
const struct sonde_comparison_function *
sonde_comparison_find(const struct sonde_comparison *comparison, const char *name,
                      const char *module);

/* What percentages of changes are of: 1 for shares, otherwise the base's total, or the new one's if
 * the base has nothing. */
double sonde_comparison_whole(const struct sonde_comparison *comparison);
/* Whether a function certainly grew by more than that part of the base's total. */
bool sonde_comparison_exceeds(const struct sonde_comparison *comparison,
                              const struct sonde_comparison_function *function, double part);
/* MORE or LESS */
static inline bool sonde_is_certain(const struct verdict_change *change) {
    return change->verdict == VERDICT_MORE || change->verdict == VERDICT_LESS;
}

#endif
