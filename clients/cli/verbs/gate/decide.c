/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/gate/decide.h"

#include "api/profile/verdict/distribution.h"

#include <math.h>
#include <stdlib.h>

struct deciding {
    const struct sonde_comparison *comparison;
    const struct gate_rules *rules;
    const size_t *runs;
    struct gate_decision *decision;
};

/* ---- One check ---- */

static double part(double value, double whole) {
    if (whole > 0)
        return value / whole;
    return value > 0 ? INFINITY : value < 0 ? -INFINITY : 0;
}

/* The number of runs on each side for which half of the interval is narrower than the distance from
 * the estimate to the limit, if these vary as the ones before. */
static size_t runs_needed(const struct deciding *deciding, double half, double distance) {
    double confidence = deciding->rules->confidence;
    double now = 2 / (1 / (double)deciding->runs[0] + 1 / (double)deciding->runs[1]);
    double deviation = half * sqrt(now) / verdict_quantile(confidence, 2 * now - 2);
    if (!isfinite(deviation) || !isfinite(distance))
        return 0;
    for (size_t runs = (size_t)now + 1; runs <= GATE_MAX_RUNS; runs++) {
        double degrees = 2 * (double)runs - 2;
        if (verdict_quantile(confidence, degrees) * deviation / sqrt((double)runs) < distance)
            return runs - (size_t)now;
    }
    return 0;
}

static bool may_decide(const struct deciding *deciding) {
    return !deciding->decision->reason[0];
}

/* is_judged: the change is not one of the many that chance makes. */
static struct gate_check check(const struct deciding *deciding, const struct verdict_change *change,
                               double limit, bool is_judged) {
    double least = deciding->rules->min_effect * deciding->comparison->whole.before;
    struct gate_check check = {.limit = limit,
                               .increase = part(change->change, change->before),
                               .low = part(change->low, change->before),
                               .high = part(change->high, change->before),
                               .result = GATE_INCONCLUSIVE};
    if (!may_decide(deciding))
        return check;
    if (check.high <= limit || change->high <= least)
        check.result = GATE_PASS;
    else if (check.low > limit && change->change > least && is_judged)
        check.result = GATE_FAIL;
    else
        check.more_runs =
            runs_needed(deciding, (check.high - check.low) / 2, fabs(check.increase - limit));
    return check;
}

/* ---- All checks ---- */

static bool is_kept(const struct gate_decision *decision, const struct gate_check *check) {
    return check->result != GATE_PASS || decision->check_count < GATE_MAX_CHECKS / 2;
}

static void add(struct deciding *deciding, const struct gate_check *check) {
    struct gate_decision *decision = deciding->decision;
    if (decision->check_count < GATE_MAX_CHECKS && is_kept(decision, check))
        decision->checks[decision->check_count++] = *check;
    else
        decision->left_out++;
    if (check->result == GATE_FAIL ||
        (check->result == GATE_INCONCLUSIVE && decision->result == GATE_PASS))
        decision->result = check->result;
}

static void check_limit(struct deciding *deciding, const struct gate_limit *limit) {
    const struct sonde_comparison *comparison = deciding->comparison;
    bool has_matched = false;
    for (size_t i = 0; i < comparison->function_count; i++) {
        const struct sonde_comparison_function *function = &comparison->functions[i];
        const struct verdict_change *change = &function->total[VERDICT_AMOUNT];
        if (regexec(&limit->pattern, function->name, 0, NULL, 0) != 0)
            continue;
        struct gate_check found =
            check(deciding, change, limit->increase, change->verdict == VERDICT_MORE);
        found.function = function;
        add(deciding, &found);
        has_matched = true;
    }
    const struct gate_check unmatched = {
        .unmatched = limit->text, .limit = limit->increase, .result = GATE_INCONCLUSIVE};
    if (!has_matched)
        add(deciding, &unmatched);
}

static const char *find_reason(const struct sonde_comparison *comparison, const size_t runs[2]) {
    if (comparison->whole.before <= 0 && comparison->whole.after <= 0)
        return "no run has a sample";
    if (comparison->whole.before <= 0)
        return "the base runs have no samples";
    if (comparison->whole.after <= 0)
        return "the new runs have no samples";
    if (runs[0] < 2 || runs[1] < 2)
        return "one run does not show how much runs vary; at least 2 on each side are needed, and "
               "8 are better";
    return "";
}

/* The largest number of the checks that are open, unless one needs too many. */
static size_t sum_up_runs(const struct gate_decision *decision) {
    size_t most = 0;
    for (size_t i = 0; i < decision->check_count; i++) {
        const struct gate_check *check = &decision->checks[i];
        if (check->result != GATE_INCONCLUSIVE)
            continue;
        if (!check->more_runs)
            return 0;
        most = check->more_runs > most ? check->more_runs : most;
    }
    return most;
}

sonde_err gate_decide(const struct sonde_comparison *comparison, const struct gate_rules *rules,
                      const size_t runs[2], struct gate_decision *decision) {
    const struct verdict_change *whole = &comparison->whole;
    struct deciding deciding = {comparison, rules, runs, decision};
    *decision = (struct gate_decision){.reason = find_reason(comparison, runs),
                                       .checks = calloc(GATE_MAX_CHECKS, sizeof *decision->checks)};
    if (!decision->checks)
        return SONDE_OUT_OF_MEMORY;
    decision->noise = part(whole->high - whole->low, whole->before) / 2;
    const struct gate_check total = check(&deciding, whole, rules->max_increase, true);
    add(&deciding, &total);
    for (size_t i = 0; i < rules->limit_count; i++)
        check_limit(&deciding, &rules->limits[i]);
    decision->more_runs = sum_up_runs(decision);
    return SONDE_OK;
}

void gate_decision_finish(struct gate_decision *decision) {
    free(decision->checks);
    *decision = (struct gate_decision){0};
}

const char *gate_result_text(enum gate_result result) {
    static const char *const texts[] = {"PASS", "FAIL", "INCONCLUSIVE"};
    return texts[result];
}
