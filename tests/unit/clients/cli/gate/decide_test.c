/* SPDX-License-Identifier: Apache-2.0
 *
 * Decisions on simulated runs of 10 s at 999 Hz, whose functions vary by 1 % from run to run. */
#include "clients/cli/verbs/gate/decide.h"
#include "clients/cli/verbs/gate/rules.h"
#include "tests/unit/check.h"
#include "tests/unit/clients/cli/gate/runs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define COMPARISONS 100
#define FUNCTIONS   60
#define SAMPLES     9990
#define PLANTED     4 /* the function that gets slower */

static struct simulation simulation_of(uint64_t seed, size_t runs) {
    struct simulation simulation = {.block_count = runs, .unrest = 0.01, .state = seed};
    simulation_set_costs(&simulation, FUNCTIONS, SAMPLES);
    return simulation;
}

static struct gate_rules rules_of(const char *max_increase, const char *function) {
    struct sonde_option_list functions = {{function}, function ? 1 : 0};
    const struct gate_rule_texts texts = {.max_increase = max_increase, .functions = &functions};
    struct gate_rules rules;
    CHECK_INT(gate_rules_read(&rules, &texts, NULL), ==, SONDE_OK);
    return rules;
}

struct scene {
    struct runs runs;
    struct sonde_comparison *comparison;
    struct gate_rules rules;
    struct gate_decision decision;
};

/* increase: of the planted function, as a part of the total. */
static void play(struct scene *scene, uint64_t *seed, size_t runs, double increase) {
    struct simulation simulation = simulation_of(*seed, runs);
    *scene = (struct scene){.rules = scene->rules};
    runs_add(&scene->runs, 0, &simulation);
    simulation.costs[PLANTED] += increase * SAMPLES;
    runs_add(&scene->runs, 1, &simulation);
    *seed = simulation.state;
    scene->comparison = runs_compare(&scene->runs, scene->rules.confidence);
    CHECK_INT(gate_decide(scene->comparison, &scene->rules, scene->runs.counts, &scene->decision),
              ==, SONDE_OK);
}

static void end(struct scene *scene) {
    gate_decision_finish(&scene->decision);
    sonde_comparison_destroy(scene->comparison);
    runs_finish(&scene->runs);
}

TEST(equal_runs_fail_in_at_most_one_of_a_hundred_comparisons) {
    struct scene scene = {.rules = rules_of("0.5%", ".=5%")};
    uint64_t seed = 20261128;
    int counts[3] = {0};
    printf("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < COMPARISONS; i++) {
        play(&scene, &seed, 8, 0);
        counts[scene.decision.result]++;
        end(&scene);
    }
    printf("%d passed, %d failed, %d inconclusive\n", counts[GATE_PASS], counts[GATE_FAIL],
           counts[GATE_INCONCLUSIVE]);
    CHECK_INT(counts[GATE_FAIL], <=, COMPARISONS / 100);
    gate_rules_finish(&scene.rules);
}

/* The total varies by 1.04 % from run to run, so the limit is 3.85 standard errors below the change
 * and is excluded in 95.6 of 100 comparisons; 89 are three standard deviations less. */
TEST(three_percent_in_one_function_are_named_first) {
    struct scene scene = {.rules = rules_of("1%", NULL)};
    uint64_t seed = 42;
    int named = 0, failed = 0;
    printf("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < COMPARISONS; i++) {
        play(&scene, &seed, 8, 0.03);
        const struct sonde_comparison *comparison = scene.comparison;
        named += comparison->cause_count > 0 &&
                 strcmp(comparison->causes[0].function->name, "function 4") == 0;
        failed += scene.decision.result == GATE_FAIL;
        end(&scene);
    }
    printf("named first in %d, failed in %d\n", named, failed);
    CHECK_INT(named, >=, COMPARISONS * 95 / 100);
    CHECK_INT(failed, >=, COMPARISONS * 89 / 100);
    gate_rules_finish(&scene.rules);
}

TEST(a_limit_of_a_function_fails_for_that_function_only) {
    struct scene scene = {.rules = rules_of("10%", "^function [45]$=5%")};
    uint64_t seed = 7;
    play(&scene, &seed, 8, 0.03);
    CHECK_INT(scene.decision.result, ==, GATE_FAIL);
    CHECK_INT(scene.decision.check_count, ==, 3);
    for (size_t i = 0; i < 3; i++) {
        const struct gate_check *check = &scene.decision.checks[i];
        bool is_planted = check->function && strcmp(check->function->name, "function 4") == 0;
        CHECK_INT(check->result, ==, is_planted ? GATE_FAIL : GATE_PASS);
    }
    end(&scene);
    gate_rules_finish(&scene.rules);
}

/* The planted function has about 4 % of the total, so that is 10 % of it. */
TEST(a_change_below_the_least_effect_does_not_fail) {
    struct scene scene = {.rules = rules_of("10%", "^function 4$=1%")};
    uint64_t seed = 8;
    scene.rules.min_effect = 0.02;
    play(&scene, &seed, 8, 0.004);
    CHECK_INT(scene.decision.result, ==, GATE_PASS);
    end(&scene);
    gate_rules_finish(&scene.rules);
}

TEST(too_few_runs_are_inconclusive_and_say_how_many_more_would_decide) {
    struct scene scene = {.rules = rules_of("1%", NULL)};
    uint64_t seed = 3;
    play(&scene, &seed, 4, 0);
    size_t runs = 4 + 2 * scene.decision.more_runs;
    CHECK_INT(scene.decision.result, ==, GATE_INCONCLUSIVE);
    CHECK(runs > 4 && runs <= MAX_BLOCKS);
    CHECK_STR(scene.decision.reason, "");
    end(&scene);
    play(&scene, &seed, runs, 0);
    CHECK_INT(scene.decision.result, ==, GATE_PASS);
    CHECK(scene.decision.noise < 0.01);
    end(&scene);
    gate_rules_finish(&scene.rules);
}

/* Decides about the same runs by other rules. */
static void decide_again(struct scene *scene) {
    gate_decision_finish(&scene->decision);
    CHECK_INT(gate_decide(scene->comparison, &scene->rules, scene->runs.counts, &scene->decision),
              ==, SONDE_OK);
}

static const struct gate_check *check_of_planted(const struct scene *scene) {
    for (size_t i = 0; i < scene->decision.check_count; i++) {
        const struct gate_check *check = &scene->decision.checks[i];
        if (check->function && strcmp(check->function->name, "function 4") == 0)
            return check;
    }
    return NULL;
}

/* The change is above the limit for certain, and somewhat below the least effect. */
TEST(runs_that_decide_about_the_least_effect_are_counted) {
    struct scene scene = {.rules = rules_of("1000%", "^function 4$=1%")};
    uint64_t seed = 9;
    play(&scene, &seed, 8, 0.01);
    const struct verdict_change *change =
        &check_of_planted(&scene)->function->total[VERDICT_AMOUNT];
    double above = (change->high - change->change) / 10;
    scene.rules.min_effect = (change->change + above) / scene.comparison->whole.before;
    decide_again(&scene);
    const struct gate_check *check = check_of_planted(&scene);
    CHECK_INT(check->result, ==, GATE_INCONCLUSIVE);
    CHECK(check->low > check->limit);
    CHECK_INT(check->more_runs, >, 8);
    end(&scene);
    gate_rules_finish(&scene.rules);
}

/* Chance has one attempt and not sixty, so a smaller change is enough. */
TEST(a_function_that_is_checked_alone_needs_less_evidence) {
    struct gate_rules rules[] = {rules_of("1000%", "^function 4$=1%"), rules_of("1000%", ".=1%")};
    int failed[2] = {0};
    for (uint64_t round = 0; round < 20; round++) {
        uint64_t seed = round;
        struct scene scene = {.rules = rules[0]};
        play(&scene, &seed, 8, 0.002);
        for (int i = 0; i < 2; i++) {
            scene.rules = rules[i];
            scene.rules.min_effect = 0;
            decide_again(&scene);
            const struct gate_check *check = check_of_planted(&scene);
            failed[i] += check->result == GATE_FAIL;
            CHECK(check->result != GATE_FAIL || check->low > check->limit);
            if (check->result == GATE_INCONCLUSIVE && check->low > check->limit)
                CHECK_INT(check->more_runs, ==, 0);
        }
        end(&scene);
    }
    printf("%d failed alone, %d among all\n", failed[0], failed[1]);
    CHECK_INT(failed[0], >, failed[1]);
    for (int i = 0; i < 2; i++)
        gate_rules_finish(&rules[i]);
}

TEST(one_run_on_a_side_decides_nothing) {
    struct scene scene = {.rules = rules_of("300%", NULL)};
    uint64_t seed = 4;
    play(&scene, &seed, 1, 0);
    CHECK_INT(scene.decision.result, ==, GATE_INCONCLUSIVE);
    CHECK(strstr(scene.decision.reason, "at least 2 on each side") != NULL);
    end(&scene);
    gate_rules_finish(&scene.rules);
}

TEST(runs_without_samples_decide_nothing) {
    struct scene scene = {.rules = rules_of("300%", NULL)};
    struct simulation simulation = simulation_of(5, 3);
    runs_add(&scene.runs, 0, &simulation);
    simulation_set_costs(&simulation, FUNCTIONS, 0);
    runs_add(&scene.runs, 1, &simulation);
    scene.comparison = runs_compare(&scene.runs, 0.95);
    CHECK_INT(gate_decide(scene.comparison, &scene.rules, scene.runs.counts, &scene.decision), ==,
              SONDE_OK);
    CHECK_INT(scene.decision.result, ==, GATE_INCONCLUSIVE);
    CHECK_STR(scene.decision.reason, "the new runs have no samples");
    end(&scene);
    gate_rules_finish(&scene.rules);
}

TEST(a_limit_that_no_function_matches_is_inconclusive) {
    struct scene scene = {.rules = rules_of("300%", "^no such name$=5%")};
    uint64_t seed = 6;
    play(&scene, &seed, 8, 0);
    CHECK_INT(scene.decision.result, ==, GATE_INCONCLUSIVE);
    CHECK_STR(scene.decision.checks[1].unmatched, "^no such name$=5%");
    CHECK_INT(scene.decision.more_runs, ==, 0);
    end(&scene);
    gate_rules_finish(&scene.rules);
}
