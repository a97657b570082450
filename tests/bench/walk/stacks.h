/* SPDX-License-Identifier: Apache-2.0
 *
 * The stacks that both benchmark programs walk: of a chosen depth, made of 48 functions with frames
 * of different sizes, compiled without frame pointers. Both programs measure in rounds, in which
 * every method has its turn, and report the median and the best round. */
#ifndef SONDE_TESTS_BENCH_WALK_STACKS_H
#define SONDE_TESTS_BENCH_WALK_STACKS_H

#include <stdint.h>

#define STACKS_ROUNDS 31
#define STACKS_SIZES  3

extern const unsigned stacks_depths[STACKS_SIZES]; /* 10, 40, 100 */

/* Calls `depth` functions, each from the one before, in an order that depends on `path`; the last
 * one calls bottom(context). */
void stacks_enter(unsigned depth, unsigned path, void (*bottom)(void *), void *context);

/* A way of walking a stack. */
struct stacks_method {
    const char *name;
    void (*walk)(unsigned times);
    unsigned times; /* walks per measurement */
};

/* ns of one walk. The best round is the one that other programs disturbed least. */
struct stacks_times {
    double median, best;
};

/* Called at the bottom of a stack. Measures all methods in turn, STACKS_ROUNDS times. */
void stacks_measure(const struct stacks_method *methods, unsigned count,
                    struct stacks_times *times);

uint64_t stacks_now_ns(void);
struct stacks_times stacks_summary(double *values, unsigned count);

#endif
