/* SPDX-License-Identifier: Apache-2.0 */
#include "api/profile/verdict/verdict.h"
#include "tests/unit/check.h"

#include <math.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* `samples` samples of the weight 1. */
static struct verdict_cell cell(double samples) {
    return (struct verdict_cell){samples, samples, samples};
}

static struct verdict_change compare(double before, double base_total, double after,
                                     double now_total, enum verdict_measure measure) {
    struct verdict_cell totals[] = {cell(base_total), cell(now_total)};
    struct verdict_cell of_function[] = {cell(before), cell(after)};
    const struct verdict_side sides[] = {{1, &totals[0], NULL, true}, {1, &totals[1], NULL, true}};
    const struct verdict_cell *cells[] = {&of_function[0], &of_function[1]};
    struct verdict_change change;
    verdict_change(sides, cells, measure, 0.95, &change);
    CHECK_INT(verdict_judge(&change, 1, 0.95), ==, SONDE_OK);
    return change;
}

/* Newcombe (1998), table II, example (a): 56/70 against 48/80; method 10 gives 0.0524 to 0.3339. */
TEST(intervals_of_shares_are_newcombes) {
    struct verdict_change change = compare(48, 80, 56, 70, VERDICT_SHARE);
    CHECK_NEAR(change.change, 0.2, 1e-9);
    CHECK_NEAR(change.low, 0.0524, 5e-5);
    CHECK_NEAR(change.high, 0.3339, 5e-5);
    CHECK_INT(change.verdict, ==, VERDICT_MORE);
}

/* Newcombe (1998), table II, example (f): 0/10 against 0/20. */
TEST(functions_that_one_side_lacks_have_an_interval) {
    struct verdict_change none = compare(0, 10, 0, 20, VERDICT_SHARE);
    CHECK_NEAR(none.low, -0.2775, 5e-5);
    CHECK_NEAR(none.high, 0.1611, 5e-5);
    struct verdict_change change = compare(0, 1000, 3, 1000, VERDICT_SHARE);
    CHECK(change.low < 0 && change.high > 0.003);
    CHECK(change.verdict == VERDICT_TOO_FEW);
    change = compare(0, 1000, 3, 1000, VERDICT_AMOUNT);
    CHECK(change.low < 0 && change.high > 3);
    CHECK(compare(0, 1000, 12, 1000, VERDICT_SHARE).verdict == VERDICT_MORE);
    CHECK(compare(12, 1000, 0, 1000, VERDICT_AMOUNT).verdict == VERDICT_LESS);
}

TEST(the_p_value_agrees_with_the_interval) {
    for (double after = 40; after <= 70; after++) {
        struct verdict_change change = compare(50, 200, after, 210, VERDICT_SHARE);
        CHECK((change.p <= 0.05) == (change.low > 0 || change.high < 0));
    }
    CHECK_NEAR(compare(50, 200, 50, 200, VERDICT_SHARE).p, 1, 1e-9);
}

TEST(the_same_counts_are_noise_and_tiny_ones_are_too_few) {
    CHECK_INT(compare(50, 200, 55, 200, VERDICT_SHARE).verdict, ==, VERDICT_NOISE);
    CHECK_INT(compare(2, 200, 3, 200, VERDICT_SHARE).verdict, ==, VERDICT_TOO_FEW);
    CHECK_INT(compare(0, 0, 3, 200, VERDICT_SHARE).verdict, ==, VERDICT_TOO_FEW);
    CHECK_INT(compare(200, 200, 200, 200, VERDICT_SHARE).verdict, ==, VERDICT_NOISE);
}

/* Ten samples of 50 are less evidence than 500 samples of 1. */
TEST(heavy_samples_have_wide_intervals) {
    struct verdict_cell totals[] = {cell(1000), cell(1000)};
    struct verdict_cell light[] = {cell(400), cell(500)};
    struct verdict_cell heavy[] = {{400, 8, 8 * 2500}, {500, 10, 10 * 2500}};
    struct verdict_cell mixed[] = {{1000, 608, 600 + 8 * 2500}, {1000, 510, 500 + 10 * 2500}};
    struct verdict_side sides[] = {{1, &totals[0], NULL, true}, {1, &totals[1], NULL, true}};
    const struct verdict_cell *cells[] = {&light[0], &light[1]};
    struct verdict_change first, second;
    verdict_change(sides, cells, VERDICT_SHARE, 0.95, &first);
    sides[0].totals = &mixed[0];
    sides[1].totals = &mixed[1];
    cells[0] = &heavy[0];
    cells[1] = &heavy[1];
    verdict_change(sides, cells, VERDICT_SHARE, 0.95, &second);
    CHECK(first.low > 0);
    CHECK(second.low < 0);
    CHECK(second.high - second.low > 4 * (first.high - first.low));
    CHECK_NEAR(first.change, second.change, 1e-9);
}

/* The samples say ± 4 %, the blocks much more. */
TEST(blocks_that_differ_have_wide_intervals) {
    struct verdict_cell totals[8], before[] = {cell(500), cell(900), cell(300), cell(700)};
    struct verdict_cell after[] = {cell(800), cell(400), cell(950), cell(550)};
    struct verdict_cell steady[] = {cell(598), cell(601), cell(600), cell(602)};
    for (size_t i = 0; i < COUNT_OF(totals); i++)
        totals[i] = cell(1000);
    const struct verdict_side sides[] = {{4, totals, NULL, true}, {4, totals, NULL, true}};
    const struct verdict_cell *cells[] = {before, after};
    struct verdict_change change;
    verdict_change(sides, cells, VERDICT_SHARE, 0.95, &change);
    CHECK_NEAR(change.change, 0.075, 1e-9);
    CHECK(change.low < -0.3 && change.high > 0.4);
    cells[0] = cells[1] = steady;
    verdict_change(sides, cells, VERDICT_SHARE, 0.95, &change);
    CHECK(change.high < 0.005);
}

/* By hand: rates of 10, 12, 14 and 20, 22, 24, 26 per second. */
TEST(amounts_are_per_exposure) {
    static const double values[] = {10, 24, 14, 20, 22, 48, 26},
                        exposures[] = {1, 2, 1, 1, 1, 2, 1};
    struct verdict_cell totals[7], cells[7];
    for (size_t i = 0; i < COUNT_OF(totals); i++) {
        totals[i] = (struct verdict_cell){.value = 100};
        cells[i] = (struct verdict_cell){.value = values[i]};
    }
    const struct verdict_side sides[] = {{3, totals, exposures, false},
                                         {4, totals + 3, exposures + 3, false}};
    const struct verdict_cell *both[] = {cells, cells + 3};
    struct verdict_change change;
    verdict_change(sides, both, VERDICT_AMOUNT, 0.95, &change);
    CHECK_NEAR(change.before, 12, 1e-9);
    CHECK_NEAR(change.after, 23.2, 1e-9);
    /* Variances 3/2 * 8 / 16 = 0.75 and 4/3 * (10.24 + 1.44 + 2.56 + 7.84) / 25 = 1.1776, so Welch
     * has 4.9975 degrees of freedom. */
    CHECK_NEAR((change.high - change.low) / 2, 2.57087 * sqrt(0.75 + 1.1776), 1e-3);
    CHECK(isinf(change.samples));
}

TEST(one_block_without_counts_says_nothing) {
    struct verdict_cell total = {.value = 100}, before = {.value = 10}, after = {.value = 90};
    const struct verdict_side side = {1, &total, NULL, false}, sides[] = {side, side};
    const struct verdict_cell *cells[] = {&before, &after};
    struct verdict_change change;
    verdict_change(sides, cells, VERDICT_SHARE, 0.95, &change);
    CHECK_INT(verdict_judge(&change, 1, 0.95), ==, SONDE_OK);
    CHECK(isinf(change.low) && isinf(change.high));
    CHECK_INT(change.verdict, ==, VERDICT_TOO_FEW);
    CHECK(isinf(verdict_least_change(sides, 0.5, 0.95)));
}

/* A heap whose objects are larger than the sampler's period was sampled completely. */
TEST(exact_amounts_have_no_width) {
    struct verdict_cell total = {1000, 10, 0}, before = {400, 4, 0}, after = {500, 5, 0};
    const struct verdict_side side = {1, &total, NULL, true}, sides[] = {side, side};
    const struct verdict_cell *cells[] = {&before, &after};
    struct verdict_change change;
    verdict_change(sides, cells, VERDICT_AMOUNT, 0.95, &change);
    CHECK_INT(verdict_judge(&change, 1, 0.95), ==, SONDE_OK);
    CHECK_NEAR(change.low, 100, 1e-9);
    CHECK_NEAR(change.high, 100, 1e-9);
    CHECK_INT(change.verdict, ==, VERDICT_MORE);
}

/* Of many functions, one with p = 0.03 is expected by chance. */
TEST(many_functions_are_judged_together) {
    struct verdict_change changes[20];
    for (size_t i = 0; i < COUNT_OF(changes); i++)
        changes[i] = (struct verdict_change){.before = 1,
                                             .after = 1.5,
                                             .change = 0.5,
                                             .low = 0.1,
                                             .high = 0.9,
                                             .p = 0.5,
                                             .samples = 100};
    changes[3].p = 0.03;
    CHECK_INT(verdict_judge(changes, 1, 0.95), ==, SONDE_OK);
    CHECK_INT(verdict_judge(changes, COUNT_OF(changes), 0.95), ==, SONDE_OK);
    CHECK_INT(changes[3].verdict, ==, VERDICT_NOISE);
    changes[3].p = 0.002;
    changes[4].p = 0.004;
    changes[4].change = -0.5;
    CHECK_INT(verdict_judge(changes, COUNT_OF(changes), 0.95), ==, SONDE_OK);
    CHECK_INT(changes[3].verdict, ==, VERDICT_MORE);
    CHECK_INT(changes[4].verdict, ==, VERDICT_LESS);
    for (size_t i = 5; i < COUNT_OF(changes); i++)
        changes[i].samples = 5;
    changes[3].p = changes[4].p = 0.02;
    CHECK_INT(verdict_judge(changes, COUNT_OF(changes), 0.95), ==, SONDE_OK);
    CHECK_INT(changes[3].verdict, ==, VERDICT_MORE);
    CHECK_INT(verdict_judge(changes, 0, 0.95), ==, SONDE_OK);
}

TEST(few_samples_can_show_only_large_changes) {
    struct verdict_cell totals[] = {cell(95), cell(96), cell(1e6)};
    const struct verdict_side few[] = {{1, &totals[0], NULL, true}, {1, &totals[1], NULL, true}};
    const struct verdict_side many[] = {{1, &totals[2], NULL, true}, {1, &totals[2], NULL, true}};
    CHECK_NEAR(verdict_least_change(few, 0.5, 0.95), 0.139, 0.002);
    CHECK_NEAR(verdict_least_change(many, 0.5, 0.95), 0.00139, 0.00002);
}

TEST(verdicts_have_words) {
    CHECK_STR(verdict_text(VERDICT_TOO_FEW), "not enough samples");
    CHECK_STR(verdict_text(VERDICT_NOISE), "within noise");
    CHECK_STR(verdict_text(VERDICT_MORE), "more");
    CHECK_STR(verdict_text(VERDICT_LESS), "less");
}
