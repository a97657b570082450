/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds functions whose cost has changed its level, from what each slot of 5 minutes had of them.
 *
 *     slots   ................ 48 before ................ | 8, 10 or 12 after
 *
 * A function's share of its service's total is compared, so more traffic is not a change. The test
 * is Student's t with the variance between slots of both sides together. That variance is at least
 * the one that the number of samples has, and grows with the correlation of neighbouring slots, by
 * (1 + r) / (1 - r) (Bartlett, 1935, Journal of the Royal Statistical Society 98, page 536). A
 * spike is not a change of the level: in one or two slots of 12 it also makes the variance so large
 * that t stays below 4, however high it is. In six of them, neighbours resemble each other.
 *
 * Each function is tested in each slot, thousands of times a day, so the probability of a finding
 * by chance is LEVEL_CHANCE per test. If one function's cost changes, the shares of all others do.
 * So of the significant functions, the one whose ratio to the rest changed by the largest factor
 * counts, and the others are compared again without it.
 *
 * Code that was renamed, inlined, outlined or split vanishes in one function and appears in others.
 * Such functions are added up: if their sum has no change, the cost only moved.
 *
 * Thread safety: any thread. */
#ifndef SONDE_SERVICE_WATCH_LEVEL_H
#define SONDE_SERVICE_WATCH_LEVEL_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEVEL_SLOT_S       300
#define LEVEL_BEFORE       48
#define LEVEL_LEAST_BEFORE 24 /* with fewer slots, nothing is found */
#define LEVEL_AFTER        12
#define LEVEL_LEAST_AFTER  8
#define LEVEL_SLOTS        (LEVEL_BEFORE + LEVEL_AFTER)
#define LEVEL_CHANCE       1e-7  /* per function and test */
#define LEVEL_LEAST_SHARE  0.005 /* of the service, before or after */
#define LEVEL_LEAST_CHANGE 0.05  /* of the function's cost */
#define LEVEL_MAX_CHANGES  16

#define LEVEL_NONE SIZE_MAX

enum level_kind { LEVEL_MORE, LEVEL_LESS, LEVEL_MOVED };

struct level_input {
    size_t slot_count;     /* at most LEVEL_SLOTS, oldest first */
    const double *wholes;  /* by slot: of all functions; 0 = nothing was recorded */
    const double *weights; /* by slot: the value of one sample; 0 = unknown */
    size_t function_count;
    const float *values; /* number: function * LEVEL_SLOTS + slot; without what it calls */
};

struct level_change {
    enum level_kind kind;
    size_t function;
    size_t moved_from;    /* whose cost the function has now; LEVEL_NONE = nobody's */
    double before, after; /* shares of the service, with moved_from */
    double factor;        /* of its cost, beside that of all that did not change; 0 = it was or
                             is 0 */
    double low, high;     /* 95 % interval of after - before */
    double t;             /* of the test */
};

struct level_result {
    struct level_change changes[LEVEL_MAX_CHANGES]; /* the largest first */
    size_t count;
    size_t slot; /* the first one after the change */
};

/* Errors: SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err level_find(const struct level_input *input, struct level_result *result);

#endif
