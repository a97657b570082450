/* SPDX-License-Identifier: Apache-2.0
 *
 * What both benchmark programs walk: stacks of a chosen depth, made of 48 functions with frames of
 * mixed size, compiled without frame pointers; and how both measure: rounds in which every method
 * gets its turn, medians and bests of the rounds. */
#ifndef SONDE_TESTS_BENCH_WALK_STACKS_H
#define SONDE_TESTS_BENCH_WALK_STACKS_H

#include <stdint.h>

#define STACKS_ROUNDS 31
#define STACKS_SIZES  3

extern const unsigned stacks_depths[STACKS_SIZES]; /* 10, 40, 100 */

/* Recurses `depth` functions deep, in an order that `path` chooses, and calls bottom(context)
 * there. */
void stacks_enter(unsigned depth, unsigned path, void (*bottom)(void *), void *context);

/* A way of walking: does it `times` times from here. */
struct stacks_method {
    const char *name;
    void (*walk)(unsigned times);
    unsigned times; /* of one measurement */
};

/* ns of one walk. The best round is the one a busy machine disturbed least. */
struct stacks_times {
    double median, best;
};

/* At the bottom of a stack: measures all methods STACKS_ROUNDS times in turn. */
void stacks_measure(const struct stacks_method *methods, unsigned count,
                    struct stacks_times *times);

uint64_t stacks_now_ns(void);
struct stacks_times stacks_summary(double *values, unsigned count);

#endif
