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
    bool is_endless; /* a check is open for which more_runs is 0 */
};

/* ---- One check ---- */

static double part(double value, double whole) {
    if (whole > 0)
        return value / whole;
    return value > 0 ? INFINITY : value < 0 ? -INFINITY : 0;
}

/* The number of runs on each side for which half of the interval is narrower than the distance from
 * the estimate to what it must exclude, if these vary as the ones before. */
static size_t runs_needed(const struct deciding *deciding, double half, double distance) {
    double confidence = deciding->rules->confidence;
    double now = 2 / (1 / (double)deciding->runs[0] + 1 / (double)deciding->runs[1]);
    double deviation = half * sqrt(now) / verdict_quantile(confidence, 2 * now - 2);
    if (!isfinite(deviation) || !isfinite(distance))
        return 0;
    for (size_t runs = (size_t)now + 1; runs <= GATE_MAX_FORECAST; runs++) {
        double degrees = 2 * (double)runs - 2;
        if (verdict_quantile(confidence, degrees) * deviation / sqrt((double)runs) < distance)
            return runs - (size_t)now;
    }
    return 0;
}

/* What is open: whether the increase is above the limit, or else whether the change is large enough
 * to matter. If both are decided, chance may still explain the change among the others, and how
 * many runs that takes is not known. */
static size_t runs_to_decide(const struct deciding *deciding, const struct gate_check *check,
                             const struct verdict_change *change, double least) {
    if (check->low <= check->limit)
        return runs_needed(deciding, (check->high - check->low) / 2,
                           fabs(check->increase - check->limit));
    if (change->change <= least)
        return runs_needed(deciding, (change->high - change->low) / 2, least - change->change);
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
        check.more_runs = runs_to_decide(deciding, &check, change, least);
    return check;
}

/* ---- All checks ---- */

static bool is_kept(const struct gate_decision *decision, const struct gate_check *check) {
    return check->result != GATE_PASS || decision->check_count < GATE_MAX_CHECKS / 2;
}

static void add(struct deciding *deciding, const struct gate_check *check) {
    struct gate_decision *decision = deciding->decision;
    bool is_open = check->result == GATE_INCONCLUSIVE;
    if (decision->check_count < GATE_MAX_CHECKS && is_kept(decision, check))
        decision->checks[decision->check_count++] = *check;
    else
        decision->left_out++;
    if (check->result == GATE_FAIL || (is_open && decision->result == GATE_PASS))
        decision->result = check->result;
    deciding->is_endless |= is_open && check->more_runs == 0;
    if (is_open && check->more_runs > decision->more_runs)
        decision->more_runs = check->more_runs;
}

/* The functions that a limit is about, with verdicts of their own: chance is shared by as many as
 * are checked. */
struct matches {
    const struct sonde_comparison_function **functions;
    struct verdict_change *changes;
    size_t count;
};

static void match(const struct sonde_comparison *comparison, const struct gate_limit *limit,
                  struct matches *matches) {
    for (size_t i = 0; i < comparison->function_count; i++) {
        const struct sonde_comparison_function *function = &comparison->functions[i];
        if (regexec(&limit->pattern, function->name, 0, NULL, 0) != 0)
            continue;
        matches->functions[matches->count] = function;
        matches->changes[matches->count++] = function->total[VERDICT_AMOUNT];
    }
}

static void check_matches(struct deciding *deciding, const struct gate_limit *limit,
                          const struct matches *matches) {
    for (size_t i = 0; i < matches->count; i++) {
        const struct verdict_change *change = &matches->changes[i];
        struct gate_check found =
            check(deciding, change, limit->increase, change->verdict == VERDICT_MORE);
        found.function = matches->functions[i];
        add(deciding, &found);
    }
    const struct gate_check unmatched = {
        .unmatched = limit->text, .limit = limit->increase, .result = GATE_INCONCLUSIVE};
    if (matches->count == 0)
        add(deciding, &unmatched);
}

static sonde_err check_limit(struct deciding *deciding, const struct gate_limit *limit) {
    size_t most = deciding->comparison->function_count + 1; /* calloc of 0 may be NULL */
    struct matches matches = {.functions = calloc(most, sizeof(void *)),
                              .changes = calloc(most, sizeof(struct verdict_change))};
    sonde_err err = matches.functions && matches.changes ? SONDE_OK : SONDE_OUT_OF_MEMORY;
    if (!err) {
        match(deciding->comparison, limit, &matches);
        err = verdict_judge(matches.changes, matches.count, deciding->rules->confidence);
    }
    if (!err)
        check_matches(deciding, limit, &matches);
    free(matches.functions);
    free(matches.changes);
    return err;
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

sonde_err gate_decide(const struct sonde_comparison *comparison, const struct gate_rules *rules,
                      const size_t runs[2], struct gate_decision *decision) {
    const struct verdict_change *whole = &comparison->whole;
    struct deciding deciding = {comparison, rules, runs, decision, false};
    sonde_err err = SONDE_OK;
    *decision = (struct gate_decision){.reason = find_reason(comparison, runs),
                                       .checks = calloc(GATE_MAX_CHECKS, sizeof *decision->checks)};
    if (!decision->checks)
        return SONDE_OUT_OF_MEMORY;
    decision->noise = part(whole->high - whole->low, whole->before) / 2;
    const struct gate_check total = check(&deciding, whole, rules->max_increase, true);
    add(&deciding, &total);
    for (size_t i = 0; i < rules->limit_count && !err; i++)
        err = check_limit(&deciding, &rules->limits[i]);
    if (deciding.is_endless)
        decision->more_runs = 0;
    return err;
}

void gate_decision_finish(struct gate_decision *decision) {
    free(decision->checks);
    *decision = (struct gate_decision){0};
}

const char *gate_result_text(enum gate_result result) {
    static const char *const texts[] = {"PASS", "FAIL", "INCONCLUSIVE"};
    return texts[result];
}
