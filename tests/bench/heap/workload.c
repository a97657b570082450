/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/heap/workload.h"

#include "tests/bench/walk/stacks.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#define SIZES 4096u

static uint32_t sizes[SIZES];

/* Mixed sizes are 16 * 2^(11 u^s), where u is uniform and s is chosen for the average size. */
void workload_choose(enum workload_mix mix) {
    uint32_t state = 4711;
    for (unsigned i = 0; i < SIZES; i++) {
        state = state * 1664525u + 1013904223u;
        double u = (state >> 8) / 16777216.0;
        sizes[i] = (uint32_t)(mix == WORKLOAD_SMALL ? 16 + 1024 * u : 16 * exp2(11 * pow(u, 2.77)));
    }
}

const char *workload_name(enum workload_mix mix) {
    return mix == WORKLOAD_SMALL ? "small" : "mixed";
}

double workload_average(void) {
    double sum = 0;
    for (unsigned i = 0; i < SIZES; i++)
        sum += sizes[i];
    return sum / SIZES;
}

uint64_t workload_cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct run {
    unsigned pairs;
    uint64_t ns;
};

static void pairs_at_bottom(void *context) {
    struct run *run = context;
    void *held[WORKLOAD_HELD] = {0};
    uint64_t start = workload_cpu_ns();
    for (unsigned i = 0; i < run->pairs; i++) {
        void *volatile *place = &held[i % WORKLOAD_HELD];
        free(*place);
        char *block = malloc(sizes[i % SIZES]);
        *(volatile char *)block = (char)i;
        *place = block;
    }
    run->ns = workload_cpu_ns() - start;
    for (unsigned i = 0; i < WORKLOAD_HELD; i++)
        free(held[i]);
}

static double measure_once(const struct workload_method *method, unsigned depth, unsigned pairs,
                           double *samples) {
    struct run run = {.pairs = pairs};
    if (method->begin)
        method->begin();
    uint64_t before = method->samples ? method->samples() : 0;
    stacks_enter(depth, 7, pairs_at_bottom, &run);
    *samples = method->samples ? (double)(method->samples() - before) / pairs : 0;
    if (method->end)
        method->end();
    return (double)run.ns / pairs;
}

void workload_measure(const struct workload_method *methods, unsigned count, unsigned depth,
                      unsigned pairs, struct workload_times *times) {
    static double values[WORKLOAD_MOST][WORKLOAD_ROUNDS];
    double samples;
    for (unsigned i = 0; i < count; i++)
        (void)measure_once(&methods[i], depth, pairs / 4, &samples);
    for (unsigned round = 0; round < WORKLOAD_ROUNDS; round++)
        for (unsigned i = 0; i < count; i++) {
            values[i][round] = measure_once(&methods[i], depth, pairs, &samples);
            times[i].samples_per_pair = samples;
        }
    for (unsigned i = 0; i < count; i++) {
        struct stacks_times summary = stacks_summary(values[i], WORKLOAD_ROUNDS);
        times[i].median = summary.median;
        times[i].best = summary.best;
        if (!methods[i].samples && methods[i].mean > 0) {
            double sum = 0;
            for (unsigned k = 0; k < SIZES; k++)
                sum += -expm1(-(double)sizes[k] / methods[i].mean);
            times[i].samples_per_pair = sum / SIZES;
        }
    }
}
