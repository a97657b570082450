/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/walk/stacks.h"

#include <stdlib.h>
#include <time.h>

#define FUNCTIONS 48

const unsigned stacks_depths[STACKS_SIZES] = {10, 40, 100};

typedef unsigned long enter(unsigned left, unsigned path);
static enter *const functions[FUNCTIONS];
static void (*at_bottom)(void *);
static void *bottom_context;

/* Defines a function with a frame of `size` bytes, which calls the next one. */
#define FUNCTION(number, size)                                                                    \
    __attribute__((noipa)) static unsigned long function_##number(unsigned left, unsigned path) { \
        volatile char bytes[size];                                                                \
        bytes[left % (size)] = (char)path;                                                        \
        if (left == 0)                                                                            \
            at_bottom(bottom_context);                                                            \
        else                                                                                      \
            path += (unsigned)functions[(path >> 8) % FUNCTIONS](left - 1,                        \
                                                                 path * 1664525u + 1013904223u);  \
        return path + (unsigned char)bytes[left % (size)];                                        \
    }

#define EIGHT(n)        \
    FUNCTION(n##0, 16)  \
    FUNCTION(n##1, 40)  \
    FUNCTION(n##2, 24)  \
    FUNCTION(n##3, 300) \
    FUNCTION(n##4, 64) FUNCTION(n##5, 8) FUNCTION(n##6, 120) FUNCTION(n##7, 1000)
EIGHT(1)
EIGHT(2)
EIGHT(3)
EIGHT(4)
EIGHT(5)
EIGHT(6)

#define NAMES(n)                                                                         \
    function_##n##0, function_##n##1, function_##n##2, function_##n##3, function_##n##4, \
        function_##n##5, function_##n##6, function_##n##7
static enter *const functions[FUNCTIONS] = {NAMES(1), NAMES(2), NAMES(3),
                                            NAMES(4), NAMES(5), NAMES(6)};

void stacks_enter(unsigned depth, unsigned path, void (*bottom)(void *), void *context) {
    at_bottom = bottom;
    bottom_context = context;
    functions[path % FUNCTIONS](depth - 1, path * 2654435761u + 12345);
}

uint64_t stacks_now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int by_value(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

struct stacks_times stacks_summary(double *values, unsigned count) {
    qsort(values, count, sizeof *values, by_value);
    return (struct stacks_times){values[count / 2], values[0]};
}

void stacks_measure(const struct stacks_method *methods, unsigned count,
                    struct stacks_times *times) {
    double *rounds = calloc((size_t)count * STACKS_ROUNDS, sizeof *rounds);
    for (unsigned i = 0; i < count; i++)
        methods[i].walk(methods[i].times / 10 + 1);
    for (unsigned round = 0; round < STACKS_ROUNDS; round++) {
        for (unsigned i = 0; i < count; i++) {
            uint64_t start = stacks_now_ns();
            methods[i].walk(methods[i].times);
            rounds[i * STACKS_ROUNDS + round] =
                (double)(stacks_now_ns() - start) / methods[i].times;
        }
    }
    for (unsigned i = 0; i < count; i++)
        times[i] = stacks_summary(rounds + i * STACKS_ROUNDS, STACKS_ROUNDS);
    free(rounds);
}
