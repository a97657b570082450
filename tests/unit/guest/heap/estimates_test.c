/* SPDX-License-Identifier: Apache-2.0
 *
 * H2 for Sonde's sampler: estimates of known allocations are within three standard deviations, by
 * size, live and in total, also with mixed sizes and when the rate changes meanwhile. */
#include "service/guest/heap/random.h"
#include "tests/unit/check.h"
#include "tests/unit/guest/heap/sampler_fixture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define MOST 400000

static void *held[MOST];
static int count;

__attribute__((noinline)) static void hold(size_t size, int n) {
    for (int i = 0; i < n; i++)
        held[count++] = malloc(size);
}

static void free_all(void) {
    while (count > 0)
        free(held[--count]);
}

/* Of the estimate of n objects, each sampled with probability p and counted 1 / p. */
static double deviation(double n, double p) {
    return sqrt(n * (1 - p) / p);
}

static void check_live(size_t size, double n, double mean) {
    double p = -expm1(-(double)size / mean), estimate = fixture_live_objects(size);
    printf("  %zu B at %.0f: %.0f of %.0f\n", size, mean, estimate, n);
    CHECK_NEAR(estimate, n, 3 * deviation(n, p) + 0.5);
}

TEST(h2_a_live_set_is_estimated_at_each_density) {
    fixture_seed(20261121);
    static const uint64_t means[] = {1, 100, 4096, 65536, 524288};
    for (int i = 0; i < 5; i++) {
        CHECK_INT(fixture_start(means[i], 0), ==, 0);
        double mean = means[i] == 1 ? 1e-9 : (double)means[i];
        hold(1000, 100000);
        hold(32, 70000); /* one caller, mixed sizes */
        hold(2048, 10000);
        hold(1 << 20, 50);
        check_live(1000, 100000, mean);
        check_live(32, 70000, mean);
        check_live(2048, 10000, mean);
        check_live(1 << 20, 50, mean);
        free_all();
        CHECK_NEAR(fixture_live_objects(1000) + fixture_live_objects(32), 0, 0);
        fixture_stop();
    }
}

TEST(h2_totals_count_what_was_freed_too) {
    fixture_seed(20261121);
    CHECK_INT(fixture_start(65536, 0), ==, 0);
    struct fixture_totals before = fixture_totals();
    for (int i = 0; i < 300; i++) {
        hold(3000, 1000);
        free_all();
    }
    struct fixture_totals after = fixture_totals();
    double p = -expm1(-3000.0 / 65536), error = 3 * deviation(300000, p);
    CHECK_NEAR(after.objects - before.objects, 300000, error);
    CHECK_NEAR(after.bytes - before.bytes, 300000 * 3000.0, error * 3000);
    CHECK_NEAR(fixture_live_objects(3000), 0, 0);
    fixture_stop();
}

TEST(h2_a_change_of_density_keeps_estimates_right) {
    fixture_seed(20261121);
    CHECK_INT(fixture_start(1 << 20, 0), ==, 0);
    double p = -expm1(-1000.0 / (1 << 20)), variance = 0, n = 0;
    for (int round = 0; round < 40; round++) { /* each change cuts a distance short */
        hold(1000, 5000);
        variance += deviation(5000, p) * deviation(5000, p);
        CHECK_INT(fixture_start(8192, 0), ==, 0);
        hold(1000, 500);
        variance += pow(deviation(500, -expm1(-1000.0 / 8192)), 2);
        CHECK_INT(fixture_start(1 << 20, 0), ==, 0);
        n += 5500;
    }
    printf("  %.0f of %.0f\n", fixture_live_objects(1000), n);
    CHECK_NEAR(fixture_live_objects(1000), n, 3 * sqrt(variance));
    free_all();
    fixture_stop();
}

TEST(a_probability_samples_allocations_of_any_size) {
    fixture_seed(20261121);
    CHECK_INT(fixture_start_window(0, 0.1), ==, 0);
    hold(16, 100000);
    hold(5000, 20000);
    struct fixture_totals totals = fixture_totals();
    CHECK_INT(totals.live, ==, 0); /* a window remembers no blocks */
    double error = 3 * deviation(120000, 0.1);
    CHECK_NEAR(totals.objects, 120000, error);
    CHECK_NEAR(totals.samples, 12000, error * 0.1);
    fixture_stop_window();
    free_all();
}

TEST(a_window_beside_heap_profiling_keeps_both_right) {
    fixture_seed(20261121);
    CHECK_INT(fixture_start(65536, 0), ==, 0);
    hold(1000, 50000);
    double live = fixture_totals().live;
    CHECK_INT(fixture_start_window(0, 0.25), ==, 0);
    hold(1000, 50000);
    CHECK_INT(fixture_totals().live, >, live + 10000);
    double p = -expm1(-1000.0 / 65536), both = p + 0.25 - p * 0.25;
    double error = 3 * sqrt(pow(deviation(50000, p), 2) + pow(deviation(50000, both), 2));
    CHECK_NEAR(fixture_live_objects(1000), 100000, error);
    fixture_stop_window();
    hold(1000, 50000);
    error = 3 * sqrt(2 * pow(deviation(50000, p), 2) + pow(deviation(50000, both), 2));
    CHECK_NEAR(fixture_live_objects(1000), 150000, error);
    fixture_forget_live(); /* a reset */
    CHECK_INT(fixture_totals().live, ==, 0);
    free_all();
    fixture_stop();
}

TEST(probabilities_and_distances_follow_the_formulas) {
    for (double x = 1e-12; x < 60; x *= 1.01)
        CHECK_NEAR(random_hit_probability(x) / -expm1(-x), 1, 1e-12);
    uint64_t state = 4711;
    double sum = 0, squares = 0, n = 1000000;
    for (int i = 0; i < n; i++) {
        double distance = (double)random_distance(&state, 524288) / 524288;
        sum += distance;
        squares += distance * distance;
    }
    CHECK_NEAR(sum / n, 1, 0.005);
    CHECK_NEAR(squares / n, 2, 0.03);
}
