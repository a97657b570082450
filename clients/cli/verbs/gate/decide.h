/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a comparison of runs stays within limits. A limit is exceeded if the whole interval of
 * the increase is above it, and kept if the whole interval is below it. Otherwise the runs are too
 * few or too noisy to decide. A limit of functions is exceeded only by those that are also MORE
 * among all functions that it matches (verdict.h). Thread safety: any thread. */
#ifndef SONDE_CLIENTS_CLI_VERBS_GATE_DECIDE_H
#define SONDE_CLIENTS_CLI_VERBS_GATE_DECIDE_H

#include "api/draw/compare/comparison.h"

#include <regex.h>

#define GATE_MAX_RUNS     100  /* on each side */
#define GATE_MAX_FORECAST 1000 /* a change that needs more runs is not decided */
#define GATE_MAX_CHECKS   1000

enum gate_result {
    GATE_PASS,
    GATE_FAIL,
    GATE_INCONCLUSIVE,
};

/* Of the functions whose name matches; shares of the base's value: 0.05 = 5 %. */
struct gate_limit {
    const char *text; /* as the user gave it: "^parse=5%" */
    regex_t pattern;
    double increase;
};

struct gate_rules {
    double max_increase; /* of the total */
    double min_effect;   /* a change of a smaller part of the total never fails */
    double confidence;
    struct gate_limit *limits; /* of functions */
    size_t limit_count;
};

struct gate_check {
    const struct sonde_comparison_function *function; /* NULL = the total */
    const char *unmatched;      /* not NULL: the limit that no function matches */
    double limit;               /* largest increase */
    double increase, low, high; /* of the base's value; infinite if the base had nothing */
    enum gate_result result;
    size_t more_runs; /* on each side, until an INCONCLUSIVE is decided; 0 = too many or unknown */
};

struct gate_decision {
    enum gate_result result;
    const char *reason; /* why nothing can be decided; "" = it could */
    struct gate_check *checks;
    size_t check_count, left_out; /* left_out: checks that were too many to keep */
    double noise;     /* half the width of the total's interval, as a share of the base */
    size_t more_runs; /* that decide all checks; 0 = too many or unknown */
};

/* runs: number of base and new ones. The comparison is of amounts. Finish the decision in any case.
 * Errors: SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err gate_decide(const struct sonde_comparison *comparison,
                                     const struct gate_rules *rules, const size_t runs[2],
                                     struct gate_decision *decision);
void gate_decision_finish(struct gate_decision *decision);

/* "PASS", "FAIL", "INCONCLUSIVE" */
const char *gate_result_text(enum gate_result result);

#endif
