/* SPDX-License-Identifier: Apache-2.0 */
#include "service/watch/level.h"

#include "api/profile/verdict/distribution.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define THIN           0.05 /* a slot with a smaller part of the mean is left out */
#define LARGEST_R      0.8
#define GONE           0.2 /* what is left of a function that vanished */
#define MOST_REMOVED   64
#define EARLIEST_SPLIT 20 /* slots before the end in which the change may have been */
#define INTERVAL       0.95

/* The slots in which something was recorded. */
struct finder {
    const struct level_input *input;
    size_t slots[LEVEL_SLOTS], count;
    double rest[LEVEL_SLOTS]; /* by slot of the finder: of the functions that still count */
    bool *is_removed;         /* by function */
};

struct test {
    double before, after; /* means of the share of the rest */
    double se;            /* of their difference */
    double t, degrees;
};

static double square(double value) {
    return value * value;
}

/* ---- One test ---- */

static double value_of(const struct finder *finder, size_t function, size_t i) {
    return (double)finder->input->values[function * LEVEL_SLOTS + finder->slots[i]];
}

/* How much larger the variance of a mean is because neighbours resemble each other. */
static double inflation(const double *rest, size_t count, double squares) {
    double products = 0;
    for (size_t i = 1; i < count; i++)
        products += rest[i - 1] * rest[i];
    double r = squares > 0 ? products / squares + 1 / (double)count : 0;
    r = fmin(fmax(r, 0), LARGEST_R);
    return (1 + r) / (1 - r);
}

static void set_means(struct test *test, const double *shares, size_t count, size_t after) {
    for (size_t i = 0; i < count; i++)
        *(i + after < count ? &test->before : &test->after) += shares[i];
    test->before /= (double)(count - after);
    test->after /= (double)after;
}

/* Whether the last `after` of the shares have another mean. floor: the least variance of one. */
static struct test test_shares(double *shares, size_t count, size_t after, double floor) {
    struct test test = {.degrees = (double)count - 2};
    double squares = 0;
    set_means(&test, shares, count, after);
    for (size_t i = 0; i < count; i++) {
        shares[i] -= i + after < count ? test.before : test.after;
        squares += square(shares[i]);
    }
    double variance = fmax(squares / test.degrees, floor) * inflation(shares, count, squares);
    test.se = sqrt(variance * (1 / (double)after + 1 / (double)(count - after)));
    test.t = test.se > 0 ? (test.after - test.before) / test.se : 0;
    return test;
}

/* values: by slot of the finder. The last `skipped` slots are left out. */
static struct test test_values(const struct finder *finder, const double *values, size_t after,
                               size_t skipped) {
    const struct level_input *input = finder->input;
    double shares[LEVEL_SLOTS], floor = 0;
    size_t end = finder->count - skipped;
    size_t first = end > after + LEVEL_BEFORE ? end - after - LEVEL_BEFORE : 0;
    for (size_t i = first; i < end; i++) {
        double whole = finder->rest[i];
        shares[i - first] = whole > 0 ? values[i] / whole : 0;
        floor += whole > 0 ? shares[i - first] * input->weights[finder->slots[i]] / whole : 0;
    }
    return test_shares(shares, end - first, after, floor / (double)(end - first));
}

static struct test test_function(const struct finder *finder, size_t function, size_t after) {
    double values[LEVEL_SLOTS];
    for (size_t i = 0; i < finder->count; i++)
        values[i] = value_of(finder, function, i);
    return test_values(finder, values, after, 0);
}

/* By which factor the ratio of the function to all others changed, as a logarithm. */
static double factor_of(const struct test *test) {
    double before = test->before / fmax(1 - test->before, 1e-9);
    double after = test->after / fmax(1 - test->after, 1e-9);
    return fabs(log(fmax(after, 1e-9) / fmax(before, 1e-9)));
}

static bool is_large(double before, double after) {
    return fabs(after - before) >= LEVEL_LEAST_CHANGE * before;
}

/* ---- All functions ---- */

/* Functions that are significant in a split, and by how much. */
struct candidate {
    size_t function;
    struct test test;
    bool is_used; /* in a sum with others */
};

struct candidates {
    struct candidate items[MOST_REMOVED];
    size_t count;
    double threshold;              /* of t */
    double unchanged[LEVEL_SLOTS]; /* by slot of the finder: of the functions that are none */
};

static bool matters(const struct test *test) {
    return fmax(test->before, test->after) >= LEVEL_LEAST_SHARE;
}

/* The significant function with the largest factor; false if there is none. */
static bool find_next(const struct finder *finder, size_t after, double threshold,
                      struct candidate *found) {
    double largest = 0;
    for (size_t i = 0; i < finder->input->function_count; i++) {
        if (finder->is_removed[i])
            continue;
        struct test test = test_function(finder, i, after);
        double factor = factor_of(&test);
        if (fabs(test.t) < threshold || !matters(&test) || factor <= largest)
            continue;
        *found = (struct candidate){i, test, false};
        largest = factor;
    }
    return largest > 0;
}

/* The others are compared without it from now on. */
static void take_away(struct finder *finder, size_t function) {
    finder->is_removed[function] = true;
    for (size_t i = 0; i < finder->count; i++)
        finder->rest[i] = fmax(finder->rest[i] - value_of(finder, function, i), 0);
}

static void reset(struct finder *finder) {
    memset(finder->is_removed, 0, finder->input->function_count * sizeof *finder->is_removed);
    for (size_t i = 0; i < finder->count; i++)
        finder->rest[i] = finder->input->wholes[finder->slots[i]];
}

static double threshold_of(const struct finder *finder, size_t after) {
    size_t count = after + LEVEL_BEFORE;
    count = finder->count < count ? finder->count : count;
    return verdict_quantile(1 - LEVEL_CHANCE, (double)count - 2);
}

static void find_all(struct finder *finder, size_t after, struct candidates *candidates) {
    candidates->count = 0;
    candidates->threshold = threshold_of(finder, after);
    reset(finder);
    while (candidates->count < MOST_REMOVED &&
           find_next(finder, after, candidates->threshold, &candidates->items[candidates->count]))
        take_away(finder, candidates->items[candidates->count++].function);
    memcpy(candidates->unchanged, finder->rest, sizeof candidates->unchanged);
    reset(finder);
}

/* ---- The time of the change ---- */

/* The number of slots after the change, of those that explain the function best. */
static size_t best_split(const struct finder *finder, size_t function) {
    size_t best = LEVEL_LEAST_AFTER;
    double largest = 0;
    for (size_t after = 2; after <= EARLIEST_SPLIT && after + LEVEL_LEAST_BEFORE <= finder->count;
         after++) {
        double t = fabs(test_function(finder, function, after).t);
        if (t <= largest)
            continue;
        largest = t;
        best = after;
    }
    return best;
}

/* ---- Moved costs ---- */

static double change_of(const struct candidate *candidate) {
    return candidate->test.after - candidate->test.before;
}

/* 1 = it appeared, -1 = it vanished. */
static int end_of(const struct candidate *candidate) {
    const struct test *test = &candidate->test;
    return test->before < GONE * test->after ? 1 : test->after < GONE * test->before ? -1 : 0;
}

/* The unused candidate of the other sign whose change is nearest to `missing`. */
static struct candidate *partner_of(struct candidates *candidates, double missing) {
    struct candidate *best = NULL;
    for (size_t i = 0; i < candidates->count; i++) {
        struct candidate *other = &candidates->items[i];
        if (other->is_used || change_of(other) * missing <= 0)
            continue;
        if (!best || fabs(change_of(other) - missing) < fabs(change_of(best) - missing))
            best = other;
    }
    return best && fabs(change_of(best) - missing) < fabs(missing) ? best : NULL;
}

/* A share is not a cost: it also depends on how much others have. */
static double cost_factor(const struct finder *finder, const struct candidates *candidates,
                          const double *values, size_t after) {
    double sums[2] = {0}, others[2] = {0};
    for (size_t i = 0; i < finder->count; i++) {
        int side = i + after >= finder->count;
        sums[side] += values[i];
        others[side] += candidates->unchanged[i];
    }
    if (sums[0] <= 0)
        return 0;
    return others[0] > 0 && others[1] > 0 ? sums[1] / sums[0] * others[0] / others[1]
                                          : sums[1] / sums[0];
}

static void set_change(const struct finder *finder, const struct candidates *candidates,
                       const double *values, size_t after, struct level_change *change) {
    struct test test = test_values(finder, values, after, 0);
    double half = verdict_quantile(INTERVAL, test.degrees) * test.se;
    change->before = test.before;
    change->after = test.after;
    change->low = test.after - test.before - half;
    change->high = test.after - test.before + half;
    change->t = test.t;
    change->factor = cost_factor(finder, candidates, values, after);
    change->kind = test.after > test.before ? LEVEL_MORE : LEVEL_LESS;
}

static void add_values(const struct finder *finder, size_t function, double *values) {
    for (size_t i = 0; i < finder->count; i++)
        values[i] += value_of(finder, function, i);
}

/* Adds the candidate up with those that have its cost before or after. */
static void follow(const struct finder *finder, struct candidates *candidates,
                   struct candidate *candidate, size_t after, struct level_change *change) {
    double values[LEVEL_SLOTS] = {0}, missing = -change_of(candidate);
    struct candidate *first = NULL, *partner;
    add_values(finder, candidate->function, values);
    candidate->is_used = true;
    while (end_of(candidate) && (partner = partner_of(candidates, missing))) {
        partner->is_used = true;
        first = first ? first : partner;
        missing -= change_of(partner);
        add_values(finder, partner->function, values);
    }
    *change = (struct level_change){.function = candidate->function, .moved_from = LEVEL_NONE};
    set_change(finder, candidates, values, after, change);
    if (!first)
        return;
    bool is_source = end_of(candidate) < 0;
    change->function = is_source ? first->function : candidate->function;
    change->moved_from = is_source ? candidate->function : first->function;
    if (fabs(change->t) < candidates->threshold || !is_large(change->before, change->after))
        change->kind = LEVEL_MOVED;
}

static int compare_changes(const void *a, const void *b) {
    const struct level_change *x = a, *y = b;
    double left = x->kind == LEVEL_MOVED ? 0 : fabs(x->after - x->before);
    double right = y->kind == LEVEL_MOVED ? 0 : fabs(y->after - y->before);
    return (left < right) - (left > right);
}

/* Those that appeared or vanished come first, because they explain the others. A change of a small
 * part of a function's cost is only a place that a moved cost may be in. */
static void set_changes(const struct finder *finder, struct candidates *candidates, size_t after,
                        struct level_result *result) {
    for (int pass = 0; pass < 2; pass++)
        for (size_t i = 0; i < candidates->count; i++) {
            struct candidate *candidate = &candidates->items[i];
            bool is_wanted = pass ? is_large(candidate->test.before, candidate->test.after)
                                  : end_of(candidate) != 0;
            if (candidate->is_used || !is_wanted || result->count == LEVEL_MAX_CHANGES)
                continue;
            follow(finder, candidates, candidate, after, &result->changes[result->count]);
            result->count++;
        }
    qsort(result->changes, result->count, sizeof *result->changes, compare_changes);
}

/* ---- All together ---- */

static void find_slots(struct finder *finder) {
    const struct level_input *input = finder->input;
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < input->slot_count; i++) {
        sum += input->wholes[i];
        count += input->wholes[i] > 0;
    }
    for (size_t i = 0; i < input->slot_count; i++)
        if (input->wholes[i] > 0 && input->wholes[i] >= THIN * sum / (double)count)
            finder->slots[finder->count++] = i;
}

static bool has_large(const struct candidates *candidates) {
    for (size_t i = 0; i < candidates->count; i++)
        if (is_large(candidates->items[i].test.before, candidates->items[i].test.after))
            return true;
    return false;
}

static void find(struct finder *finder, struct candidates *candidates,
                 struct level_result *result) {
    for (size_t after = LEVEL_LEAST_AFTER;
         after <= LEVEL_AFTER && after + LEVEL_LEAST_BEFORE <= finder->count; after += 2) {
        find_all(finder, after, candidates);
        if (!has_large(candidates))
            continue;
        size_t split = best_split(finder, candidates->items[0].function);
        struct candidates again;
        find_all(finder, split, &again);
        bool is_better = has_large(&again);
        split = is_better ? split : after;
        result->slot = finder->slots[finder->count - split];
        set_changes(finder, is_better ? &again : candidates, split, result);
        return;
    }
}

sonde_err level_find(const struct level_input *input, struct level_result *result) {
    struct finder finder = {.input = input};
    struct candidates candidates;
    *result = (struct level_result){.count = 0};
    finder.is_removed = calloc(input->function_count + 1, sizeof *finder.is_removed);
    if (!finder.is_removed)
        return SONDE_OUT_OF_MEMORY;
    find_slots(&finder);
    find(&finder, &candidates, result);
    free(finder.is_removed);
    return SONDE_OK;
}
