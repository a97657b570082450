/* SPDX-License-Identifier: Apache-2.0
 *
 * The tuning, with simulated services. A process yields 19 samples a second for each busy core. */
#include "clients/collect/policy/budget.h"
#include "tests/unit/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PERIODS_PER_HOUR (3600 / BUDGET_TUNE_S)

static struct budget *budget;
static int64_t now_s;
static uint64_t random_state;

static void start(const char *text) {
    struct sonde_diag diag = {0};
    sonde_err err = budget_create(text, "budget", &budget, &diag);
    CHECK_STR(diag.text, "");
    CHECK_INT(err, ==, SONDE_OK);
    now_s = 1000;
    random_state = 42;
    CHECK(!budget_tune(budget, now_s));
}

static double uniform(void) { /* splitmix64 */
    uint64_t z = random_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

/* The probability that hosts use for a service: the first rule that matches. */
static double probability_of(const char *service) {
    size_t count;
    Sonde__V1__CollectRule **rules = budget_rules(budget, &count);
    for (size_t i = 0; i < count; i++)
        if (strcmp(rules[i]->service, service) == 0 || strcmp(rules[i]->service, "*") == 0)
            return rules[i]->probability;
    return -1;
}

/* One tuning period of a service's processes, each with `samples`. Returns the samples recorded. */
static double run_period(const char *service, int processes, uint64_t samples) {
    char instance[32];
    double p = probability_of(service), recorded = 0;
    for (int i = 0; i < processes; i++) {
        if (uniform() >= p)
            continue;
        snprintf(instance, sizeof instance, "%s-%d", service, i);
        budget_count(budget, service, instance, samples, now_s + 10);
        recorded += (double)samples;
    }
    now_s += BUDGET_TUNE_S;
    budget_tune(budget, now_s);
    return recorded * PERIODS_PER_HOUR;
}

TEST(budget_without_a_file_records_everything) {
    size_t count;
    start(NULL);
    run_period("redis", 1000, 100000);
    Sonde__V1__CollectRule **rules = budget_rules(budget, &count);
    CHECK_INT(count, ==, 1);
    CHECK_STR(rules[0]->service, "*");
    CHECK(rules[0]->probability == 1);
    budget_report(budget, &count);
    CHECK_INT(count, ==, 0);
    budget_destroy(budget);
}

/* 2,000 processes with 100 samples a period each are 2,400,000 samples per hour. */
TEST(budget_tuning_converges_for_a_constant_load) {
    start("web 240000\n");
    int inside = 0;
    for (int i = 0; i < 40; i++) {
        double per_hour = run_period("web", 2000, 100);
        if (i >= 6)
            inside += per_hour >= 0.7 * 240000 && per_hour <= 1.1 * 240000;
    }
    CHECK_INT(inside, >=, 33);
    CHECK_NEAR(probability_of("web"), 0.09, 0.02);
    budget_destroy(budget);
}

TEST(budget_tuning_follows_a_load_that_doubles) {
    start("web 240000\n");
    for (int i = 0; i < 10; i++)
        run_period("web", 2000, 100);
    run_period("web", 4000, 100);
    run_period("web", 4000, 100);
    for (int i = 0; i < 5; i++)
        CHECK_NEAR(run_period("web", 4000, 100), 0.9 * 240000, 0.25 * 240000);
    budget_destroy(budget);
}

TEST(budget_of_an_autoscaled_service_holds_within_log2_steps) {
    start("web 60000\n");
    for (int i = 0; i < 5; i++)
        CHECK_NEAR(run_period("web", 10, 500), 60000, 1); /* exactly its budget */
    CHECK(probability_of("web") == 1);
    int steps = 0;
    while (run_period("web", 1000, 500) > 1.2 * 60000)
        steps++;
    CHECK_INT(steps, <=, 7); /* a load of 100 budgets: log2(100) = 6.6 */
    CHECK_INT(steps, >=, 5);
    double sum = 0;
    for (int i = 0; i < 24; i++)
        sum += run_period("web", 1000, 500);
    CHECK_NEAR(sum / 24, 0.9 * 60000, 0.15 * 60000);
    for (int i = 0; i < 20 && probability_of("web") < 1; i++)
        run_period("web", 10, 500); /* scaled down again */
    CHECK(probability_of("web") == 1);
    budget_destroy(budget);
}

TEST(budget_leaves_a_service_between_its_bounds_alone) {
    start("web 120000\n");
    for (uint64_t samples = 8000; samples <= 10000; samples += 500) {
        budget_count(budget, "web", "1", samples, now_s);
        now_s += BUDGET_TUNE_S;
        CHECK(!budget_tune(budget, now_s));
    }
    budget_count(budget, "web", "1", 10001, now_s);
    CHECK(!budget_tune(budget, now_s + BUDGET_TUNE_S - 1)); /* not due */
    CHECK(budget_tune(budget, now_s + BUDGET_TUNE_S));
    CHECK_NEAR(probability_of("web"), 0.9 * 10000 / 10001, 1e-9);
    budget_destroy(budget);
}

TEST(budget_probability_never_leaves_its_bounds) {
    start("web 1\n");
    for (int i = 0; i < 30; i++) {
        budget_count(budget, "web", "1", UINT64_MAX / 2, now_s);
        budget_count(budget, "web", "1", UINT64_MAX, now_s);
        now_s += BUDGET_TUNE_S;
        double before = probability_of("web");
        budget_tune(budget, now_s);
        CHECK(probability_of("web") >= before / 2 && probability_of("web") <= 1);
    }
    CHECK(probability_of("web") == BUDGET_MIN_P);
    budget_destroy(budget);
}

/* The sum of weight * value has the expectation sum(x), and per period the variance sum(x^2)
 * (1 - p) / p. Six standard deviations of the whole. */
TEST(budget_weights_keep_sums_unbiased) {
    start("web 100000\n");
    double recorded = 0, truth = 0, variance = 0;
    for (int period = 0; period < 1500; period++) {
        int processes = 200 + 100 * (period % 7);
        double p = probability_of("web");
        for (int i = 0; i < processes; i++) {
            double value = 50 + 10 * (i % 20);
            truth += value;
            variance += value * value * (1 - p) / p;
            if (uniform() >= p)
                continue;
            recorded += value / p;
            budget_count(budget, "web", "x", (uint64_t)value, now_s);
        }
        now_s += BUDGET_TUNE_S;
        budget_tune(budget, now_s);
    }
    CHECK(variance > 0);
    CHECK_NEAR(recorded, truth, 6 * sqrt(variance));
    CHECK_INT(6 * sqrt(variance), <, truth / 20); /* the bound says something */
    budget_destroy(budget);
}

TEST(budget_share_divides_a_budget_among_controllers) {
    start("web 120000\n");
    budget_set_share(budget, 0.5);
    budget_set_share(budget, 0); /* refused */
    budget_count(budget, "web", "1", 10000, now_s);
    CHECK(budget_tune(budget, now_s + BUDGET_TUNE_S));
    CHECK(probability_of("web") == 0.5);
    budget_destroy(budget);
}

TEST(budget_lost_periods_are_measured_by_their_real_length) {
    start("web 120000\n");
    budget_count(budget, "web", "1", 20000, now_s);
    CHECK(!budget_tune(budget, now_s + 2 * BUDGET_TUNE_S)); /* 120,000 per hour */
    budget_destroy(budget);
}

TEST(budget_survives_a_clock_that_goes_back) {
    start("web 120000\n");
    budget_count(budget, "web", "1", 10000, now_s - 500);
    CHECK(!budget_tune(budget, now_s - 300));
    CHECK(!budget_tune(budget, now_s - 200)); /* 10,000 samples in 300 s */
    CHECK(probability_of("web") == 1);
    budget_destroy(budget);
}

TEST(budget_reports_limits_and_use) {
    size_t count;
    start("web 240000 start=0.5\nrest* none start=0.25\nnever 0\n");
    for (int i = 0; i < 50; i++) {
        char instance[16];
        snprintf(instance, sizeof instance, "i%d", i % 40);
        budget_count(budget, "web", instance, 10, now_s);
    }
    budget_count(budget, "restless", "x", 5, now_s);
    budget_count(budget, "other", "x", 5, now_s);
    Sonde__V1__FleetBudget **rows = budget_report(budget, &count);
    CHECK_INT(count, ==, 2);
    CHECK_STR(rows[0]->service, "restless");
    CHECK_INT(rows[0]->samples_per_hour, ==, 0);
    CHECK(rows[0]->probability == 0.25);
    CHECK_STR(rows[1]->service, "web");
    CHECK_INT(rows[1]->samples_per_hour, ==, 240000);
    CHECK_INT(rows[1]->recent_samples_per_hour, ==, 500 * PERIODS_PER_HOUR);
    CHECK_INT(rows[1]->processes, ==, 40);
    CHECK(rows[1]->probability == 0.5);
    CHECK(budget_tune(budget, now_s + BUDGET_TUNE_S));
    budget_count(budget, "web", "new", 1, now_s + BUDGET_TUNE_S);
    rows = budget_report(budget, &count);
    CHECK_INT(rows[1]->recent_samples_per_hour, ==, 500 * PERIODS_PER_HOUR);
    CHECK_INT(rows[1]->processes, ==, 40);
    CHECK(rows[1]->probability == 1);
    budget_destroy(budget);
}

TEST(budget_destroy_takes_null) {
    budget_destroy(NULL);
}
