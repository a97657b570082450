/* SPDX-License-Identifier: Apache-2.0
 *
 * The workload of all parts of the heap benchmark: they allocate blocks of one of two mixes at a
 * chosen stack depth and free each block WORKLOAD_HELD operations later. They measure in rounds; in
 * each round every method has its turn. */
#ifndef SONDE_TESTS_BENCH_HEAP_WORKLOAD_H
#define SONDE_TESTS_BENCH_HEAP_WORKLOAD_H

#include <stdint.h>

#define WORKLOAD_HELD   64u
#define WORKLOAD_ROUNDS 9
#define WORKLOAD_MOST   16

struct workload_method {
    const char *name;
    void (*begin)(void); /* NULL = nothing to switch */
    void (*end)(void);
    uint64_t (*samples)(void); /* number of samples so far; NULL = unknown */
    double mean;               /* bytes between samples; 0 = none */
};

struct workload_times {
    double median, best;     /* ns of CPU time per malloc and free */
    double samples_per_pair; /* counted, or computed from the mean */
};

enum workload_mix {
    WORKLOAD_SMALL, /* uniform from 16 B to 1,039 B: 8 samples in 1,000 at a mean of 64 KiB */
    WORKLOAD_MIXED, /* 16 B to 32 KiB, most of them small, average 1,677 B: 25 in 1,000 */
};
void workload_choose(enum workload_mix mix);
const char *workload_name(enum workload_mix mix);
double workload_average(void); /* bytes */
/* Measures each method at that depth, `pairs` allocations at a time. */
void workload_measure(const struct workload_method *methods, unsigned count, unsigned depth,
                      unsigned pairs, struct workload_times *times);
/* CPU time of this thread. */
uint64_t workload_cpu_ns(void);

#endif
