/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts about the memory of made-up services, seen through a heap sampler: each object that it
 * takes stands for 512 KiB, and objects are freed and allocated all the time. */
#include "api/profile/verdict/leak.h"

#include "tests/unit/check.h"
#include "tests/unit/profile/verdict/simulate.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define TAKEN 524288.0 /* bytes for which an object stands */
#define BASE  1.0e9    /* memory of a service */
#define QUIET 20       /* sites that a service has besides the planted one */
#define RUNS  60       /* services of each kind */

enum plan {
    STEADY,
    LEAK,
    LATE_LEAK,
    CACHE,
    DAILY,
    RISING,
    DAILY_AND_LEAK,
    STEP,
    FILL_AND_FREE,
    PLANS
};

/* The right verdict, another one that is fair, and how many of RUNS must have one of them. Memory
 * that follows the load of a day may be the same at the end as it was in the beginning. In two
 * hours a load changes as steadily as a leak of 1 %. */
static const struct {
    enum leak_kind right, fair;
    size_t least;
} expected[PLANS] = {
    [STEADY] = {LEAK_NONE, LEAK_NONE, 58},
    [LEAK] = {LEAK_GROWS, LEAK_GROWS, 50},
    [LATE_LEAK] = {LEAK_GROWS, LEAK_GROWS, 54},
    [CACHE] = {LEAK_LEVELS_OFF, LEAK_NONE, 52},
    [DAILY] = {LEAK_FOLLOWS_TRAFFIC, LEAK_NONE, 57},
    [RISING] = {LEAK_FOLLOWS_TRAFFIC, LEAK_FOLLOWS_TRAFFIC, 57},
    [DAILY_AND_LEAK] = {LEAK_GROWS, LEAK_FOLLOWS_TRAFFIC, 47},
    [STEP] = {LEAK_NONE, LEAK_NONE, 57},
    [FILL_AND_FREE] = {LEAK_NONE, LEAK_NONE, 57},
};

struct service {
    enum plan plan;
    double hours, rate;    /* of the range; of a leak, as a part of BASE an hour */
    size_t count, restart; /* blocks; the block that begins with new processes, 0 = none */
    double traffic[LEAK_MAX_BLOCKS], whole;
    bool is_changed[LEAK_MAX_BLOCKS];
    double sites[QUIET + 1][LEAK_MAX_BLOCKS];
    uint64_t state;
};

/* What the planted site holds at a time, as a part of the range. */
static double planted(const struct service *service, double at, double traffic) {
    double leaked = BASE * service->rate * service->hours * at;
    switch (service->plan) {
    case LEAK:
        return 0.05 * BASE + leaked;
    case LATE_LEAK:
        return 0.05 * BASE +
               (at > 0.4 ? 2 * leaked - 0.8 * BASE * service->rate * service->hours : 0);
    case CACHE:
        return 0.05 * BASE + 0.1 * BASE * (1 - exp(-6 * at));
    case DAILY:
    case RISING:
        return 0.02 * BASE + 0.1 * BASE * traffic;
    case DAILY_AND_LEAK:
        return 0.02 * BASE + 0.1 * BASE * traffic + leaked;
    case FILL_AND_FREE:
        return 0.1 * BASE + 0.9 * BASE * fmod(5.3 * at, 1);
    case STEP:
        return at > 0.5 ? 0.15 * BASE : 0.05 * BASE;
    default:
        return 0.05 * BASE;
    }
}

/* The load over a day that begins at any hour, or a rising one. */
static double load(struct service *service, double at, double phase, double *noise) {
    *noise = 0.9 * *noise + 0.02 * random_normal(&service->state);
    double day = 0.5 * sin(2 * M_PI * (service->hours * at / 24 + phase));
    return 1 + (service->plan == RISING ? 2 * at : 0.3 * at + day) + *noise;
}

/* Samples of what is held: some are freed, and others taken so that `bytes` are held on average. */
static double take(double held, double bytes, double freed, uint64_t *state) {
    double left = held - fmin(held, random_poisson(held * freed, state));
    double more = bytes / TAKEN - left;
    return more > 0 ? left + random_poisson(more, state) : left + more;
}

static void run(struct service *service) {
    double phase = random_number(&service->state), noise = 0, held[QUIET + 1] = {0};
    for (size_t i = 0; i < service->count; i++) {
        double at = (double)i / (double)(service->count - 1), bytes, total = 0;
        service->traffic[i] = load(service, at, phase, &noise);
        for (size_t k = 0; k <= QUIET; k++) {
            bytes = k == QUIET ? planted(service, at, service->traffic[i]) : BASE / QUIET;
            if (service->restart && i >= service->restart && k == QUIET)
                bytes -= planted(service, (double)service->restart / (double)(service->count - 1),
                                 service->traffic[service->restart]);
            if (service->restart == i && i > 0)
                held[k] = 0, bytes /= 3;
            held[k] = take(held[k], fmax(bytes, 0),
                           k < QUIET                ? 0.3
                           : service->plan == CACHE ? 0.02
                                                    : 0.002,
                           &service->state);
            service->sites[k][i] = held[k] * TAKEN;
            total += service->sites[k][i];
        }
        service->whole = total;
        service->is_changed[i] = i > 0 && i == service->restart;
    }
}

static struct leak_verdict judge(const struct service *service, size_t site) {
    struct leak_blocks blocks = {service->count, service->whole, service->traffic,
                                 service->is_changed};
    return leak_judge(&blocks, service->sites[site]);
}

struct counts {
    size_t right, leaks, false_leaks; /* of the planted site; of the others */
    double days;
};

static void count(struct counts *counts, struct service *service) {
    enum leak_kind kind = judge(service, QUIET).kind;
    counts->leaks += kind == LEAK_GROWS;
    counts->right += kind == expected[service->plan].right || kind == expected[service->plan].fair;
    for (size_t i = 0; i < QUIET; i++)
        counts->false_leaks += judge(service, i).kind == LEAK_GROWS;
    counts->days += service->hours / 24;
}

static struct service *make(enum plan plan, double hours, double rate, uint64_t seed) {
    struct service *service = calloc(1, sizeof *service);
    CHECK(service);
    *service = (struct service){
        .plan = plan, .hours = hours, .rate = rate, .count = LEAK_MAX_BLOCKS, .state = seed};
    return service;
}

TEST(planted_services_have_the_right_verdict) {
    static const double hours[] = {2, 6, 12, 24, 72, 168}, rates[] = {0.01, 0.02, 0.05};
    struct counts all = {0};
    for (enum plan plan = 0; plan < PLANS; plan++) {
        struct counts counts = {0};
        for (size_t i = 0; i < RUNS; i++) {
            struct service *service =
                make(plan, hours[i % 6], rates[i / 6 % 3], 1000 * (uint64_t)plan + i);
            run(service);
            count(&counts, service);
            free(service);
        }
        printf("plan %d: %zu of %d are right, %zu leaks\n", (int)plan, counts.right, RUNS,
               counts.leaks);
        CHECK_INT(counts.right, >=, expected[plan].least);
        all.days += counts.days;
        all.false_leaks += counts.false_leaks;
        if (expected[plan].right != LEAK_GROWS)
            all.false_leaks += counts.leaks;
    }
    printf("%zu false verdicts in %.0f days\n", all.false_leaks, all.days);
    CHECK(100.0 * (double)all.false_leaks <= all.days);
}

TEST(the_rate_and_the_begin_of_a_leak_are_those_that_were_planted) {
    size_t contained = 0;
    for (uint64_t seed = 0; seed < RUNS; seed++) {
        struct service *service = make(LEAK, 24, 0.02, seed);
        run(service);
        struct leak_verdict verdict = judge(service, QUIET);
        double planted_rate = BASE * service->rate * service->hours / (LEAK_MAX_BLOCKS - 1);
        CHECK_INT(verdict.kind, ==, LEAK_GROWS);
        CHECK_INT(verdict.since, ==, 1);
        CHECK(fabs(verdict.rate / planted_rate - 1) < 0.2);
        contained += verdict.low <= planted_rate && planted_rate <= verdict.high;
        free(service);
    }
    CHECK_INT(contained, >=, RUNS * 85 / 100);
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct service *service = make(LATE_LEAK, 24, 0.05, seed);
        run(service);
        struct leak_verdict verdict = judge(service, QUIET);
        CHECK_INT(verdict.kind, ==, LEAK_GROWS);
        CHECK(fabs((double)verdict.since - 0.4 * LEAK_MAX_BLOCKS) <= 4);
        free(service);
    }
}

TEST(a_restart_is_no_growth_and_no_end_of_it) {
    struct service *service = make(LEAK, 24, 0.05, 1);
    service->restart = 20;
    run(service);
    CHECK_INT(judge(service, QUIET).kind, ==, LEAK_GROWS);
    service->plan = STEADY;
    run(service);
    for (size_t i = 0; i <= QUIET; i++)
        CHECK(judge(service, i).kind != LEAK_GROWS);
    free(service);
}

TEST(a_leak_that_restarts_shortly_before_the_end_is_one) {
    for (size_t restart = LEAK_MAX_BLOCKS - 4; restart < LEAK_MAX_BLOCKS; restart++) {
        struct service *service = make(LEAK, 24, 0.05, restart);
        service->restart = restart;
        run(service);
        CHECK_INT(judge(service, QUIET).kind, ==, LEAK_GROWS);
        free(service);
    }
}

TEST(too_few_blocks_and_steps_are_no_evidence) {
    struct service *service = make(LEAK, 24, 0.05, 1);
    run(service);
    service->count = LEAK_LEAST_BLOCKS - 1;
    CHECK_INT(judge(service, QUIET).kind, ==, LEAK_NONE);
    service->count = LEAK_MAX_BLOCKS;
    for (size_t i = 4; i < LEAK_MAX_BLOCKS; i++)
        service->is_changed[i] = true;
    CHECK_INT(judge(service, QUIET).kind, ==, LEAK_NONE);
    free(service);
}
