/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes that were planted in simulated histories, and histories without one. */
#include "service/watch/level.h"
#include "tests/unit/check.h"
#include "tests/unit/store/watch/fleet.h"

#include <math.h>
#include <stdio.h>

#define TRIALS 100
#define SEED   20261128u
#define DAY    288 /* slots */

static struct fleet fleet;
static double factors[FLEET_FUNCTIONS];

static void begin(size_t hosts, uint64_t seed) {
    fleet_init(&fleet, hosts, seed);
    for (size_t i = 0; i < FLEET_FUNCTIONS; i++)
        factors[i] = 1;
}

static void pass(size_t slots) {
    for (size_t i = 0; i < slots; i++)
        fleet_slot(&fleet, factors);
}

static struct level_result find(void) {
    struct level_input input = fleet_input(&fleet);
    struct level_result result;
    CHECK_INT(level_find(&input, &result), ==, SONDE_OK);
    return result;
}

/* The function whose share is nearest. */
static size_t function_of(double share) {
    size_t best = 0;
    for (size_t i = 0; i < FLEET_FUNCTIONS; i++)
        if (fabs(fleet.costs[i] - share) < fabs(fleet.costs[best] - share))
            best = i;
    return best;
}

/* The change is in the middle of a slot; an hour later, 11 whole slots have it. */
TEST(a_function_of_3_percent_that_costs_10_percent_more_is_found_within_an_hour) {
    int found = 0, named = 0;
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        begin(20, SEED + trial);
        size_t function = function_of(0.03);
        pass(70);
        factors[function] = 1.05;
        pass(1);
        factors[function] = 1.1;
        struct level_result result = {.count = 0};
        for (int slot = 0; slot < 11 && result.count == 0; slot++) {
            pass(1);
            result = find();
        }
        found += result.count > 0;
        named += result.count == 1 && result.changes[0].function == function &&
                 result.changes[0].kind == LEVEL_MORE;
    }
    printf("seeds from %u: found %d, named alone %d of %d\n", SEED, found, named, TRIALS);
    CHECK_INT(found, >=, TRIALS * 95 / 100);
    CHECK_INT(named, >=, TRIALS * 95 / 100);
}

TEST(the_interval_of_a_change_contains_it) {
    int inside = 0, all = 0;
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        begin(20, SEED + trial);
        size_t function = function_of(0.03);
        double before = fleet.costs[function];
        pass(60);
        factors[function] = 1.3;
        pass(11);
        struct level_result result = find();
        double after = 1.3 * before / (1 + 0.3 * before);
        if (result.count == 0)
            continue;
        all++;
        inside +=
            result.changes[0].low <= after - before && after - before <= result.changes[0].high;
    }
    printf("seeds from %u: %d of %d intervals contain the change\n", SEED, inside, all);
    CHECK_INT(all, >=, TRIALS * 95 / 100);
    CHECK_INT(inside, >=, all * 92 / 100);
}

/* Each slot is a test. After a finding, the next LEVEL_SLOTS slots would repeat it. */
static int false_findings(size_t hosts, double unrest, int days, uint64_t seed) {
    int count = 0, quiet = 0;
    begin(hosts, seed);
    fleet.unrest = unrest;
    for (int slot = 0; slot < days * DAY; slot++) {
        pass(1);
        if (quiet-- > 0 || find().count == 0)
            continue;
        count++;
        quiet = LEVEL_SLOTS;
    }
    return count;
}

TEST(a_hundred_days_without_a_change_have_at_most_one_finding) {
    int fleet_count = false_findings(20, 0.14, 40, SEED);
    int single = false_findings(1, 0.07, 30, SEED + 1);
    int wild = false_findings(3, 0.5, 30, SEED + 2);
    printf("seeds from %u: %d, %d and %d findings in 100 service-days\n", SEED, fleet_count, single,
           wild);
    CHECK_INT(fleet_count + single + wild, <=, 1);
}

TEST(a_spike_is_no_finding) {
    int found = 0;
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        begin(20, SEED + trial);
        size_t function = function_of(0.03);
        pass(60);
        factors[function] = 5; /* 11 times the cost for 2 of 5 minutes */
        pass(1);
        factors[function] = 1;
        for (int slot = 0; slot < 16; slot++) {
            found += find().count > 0;
            pass(1);
        }
    }
    printf("seeds from %u: %d findings\n", SEED, found);
    CHECK_INT(found, ==, 0);
}

TEST(twice_the_traffic_is_no_finding) {
    int found = 0;
    for (uint64_t trial = 0; trial < TRIALS; trial++) {
        begin(20, SEED + trial);
        pass(60);
        for (size_t i = 0; i < FLEET_FUNCTIONS; i++)
            factors[i] = 2;
        for (int slot = 0; slot < 16; slot++) {
            pass(1);
            found += find().count > 0;
        }
    }
    printf("seeds from %u: %d findings\n", SEED, found);
    CHECK_INT(found, ==, 0);
}

TEST(a_renamed_function_is_a_cost_that_moved) {
    begin(20, SEED);
    size_t before = function_of(0.03), after = FLEET_FUNCTIONS - 1;
    double factor = fleet.costs[before] / fleet.costs[after];
    factors[after] = 0;
    pass(60);
    factors[before] = 0;
    factors[after] = factor;
    pass(11);
    struct level_result result = find();
    CHECK_INT(result.count, ==, 1);
    CHECK_INT(result.changes[0].kind, ==, LEVEL_MOVED);
    CHECK_INT(result.changes[0].function, ==, after);
    CHECK_INT(result.changes[0].moved_from, ==, before);
}

/* The largest function takes in one of 3 %. Its own cost changes by less than is worth a
 * finding. */
TEST(a_function_that_was_inlined_into_its_caller_is_a_cost_that_moved) {
    begin(20, SEED);
    fleet.unrest = 0.02;
    fleet.costs[0] = 0.9;
    size_t callee = function_of(0.03);
    pass(60);
    factors[callee] = 0;
    factors[0] = 1 + fleet.costs[callee] / fleet.costs[0];
    pass(11);
    struct level_result result = find();
    CHECK_INT(result.count, ==, 1);
    CHECK_INT(result.changes[0].kind, ==, LEVEL_MOVED);
    CHECK_INT(result.changes[0].function, ==, 0);
    CHECK_INT(result.changes[0].moved_from, ==, callee);
}

TEST(a_renamed_function_that_costs_more_says_both) {
    begin(20, SEED);
    size_t before = function_of(0.03), after = FLEET_FUNCTIONS - 1;
    double cost = fleet.costs[before];
    factors[after] = 0;
    pass(60);
    factors[after] = 1.4 * cost / fleet.costs[after];
    factors[before] = 0;
    pass(11);
    struct level_result result = find();
    CHECK_INT(result.count, ==, 1);
    CHECK_INT(result.changes[0].kind, ==, LEVEL_MORE);
    CHECK_INT(result.changes[0].function, ==, after);
    CHECK_INT(result.changes[0].moved_from, ==, before);
    CHECK_NEAR(result.changes[0].after / result.changes[0].before, 1.4, 0.05);
}

TEST(a_function_that_was_split_is_a_cost_that_moved) {
    begin(20, SEED);
    size_t whole = function_of(0.03), parts[] = {FLEET_FUNCTIONS - 1, FLEET_FUNCTIONS - 2};
    factors[parts[0]] = factors[parts[1]] = 0;
    pass(60);
    factors[whole] = 0;
    factors[parts[0]] = 0.6 * fleet.costs[whole] / fleet.costs[parts[0]];
    factors[parts[1]] = 0.4 * fleet.costs[whole] / fleet.costs[parts[1]];
    pass(11);
    struct level_result result = find();
    CHECK_INT(result.count, ==, 1);
    CHECK_INT(result.changes[0].kind, ==, LEVEL_MOVED);
}

/* The shares of all others fall by a sixth. */
TEST(a_large_function_that_grows_has_no_echo_in_the_others) {
    begin(20, SEED);
    fleet.costs[0] = 1;
    pass(60);
    factors[0] = 1.5;
    pass(11);
    struct level_result result = find();
    CHECK_INT(result.count, ==, 1);
    CHECK_INT(result.changes[0].function, ==, 0);
    CHECK_INT(result.changes[0].kind, ==, LEVEL_MORE);
    CHECK_NEAR(result.changes[0].factor, 1.5, 0.05); /* the share only grew by a quarter */
}

TEST(the_slot_of_the_change_is_found) {
    begin(20, SEED);
    pass(60);
    factors[5] = 1.5;
    pass(11);
    struct level_result result = find();
    CHECK_INT(result.count, ==, 1);
    CHECK_INT(result.slot, ==, LEVEL_SLOTS - 11);
}

TEST(slots_without_samples_are_left_out) {
    begin(20, SEED);
    pass(40);
    for (size_t i = 0; i < FLEET_FUNCTIONS; i++)
        factors[i] = 0;
    pass(3); /* nothing was recorded */
    for (size_t i = 0; i < FLEET_FUNCTIONS; i++)
        factors[i] = 1;
    pass(2);
    CHECK_INT(find().count, ==, 0);
    factors[3] = 1.5;
    pass(11);
    CHECK_INT(find().count, ==, 1);
}

TEST(too_few_slots_find_nothing) {
    begin(20, SEED);
    CHECK_INT(find().count, ==, 0);
    pass(LEVEL_LEAST_BEFORE - 1);
    factors[5] = 3;
    pass(LEVEL_LEAST_AFTER);
    CHECK_INT(find().count, ==, 0);
}
