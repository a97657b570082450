/* SPDX-License-Identifier: Apache-2.0
 *
 * A program with the guest that holds 100,000 blocks from as many stacks, then allocates in several
 * threads and prints how long the slowest allocations took. It reads commands of one letter, as
 * tests/unit/engine/heap/holder.c does:
 *
 *     h     hold the blocks
 *     1, 8  start allocating in that many threads
 *     e     stop, and print the times
 *
 * A slow allocation was either preempted, which is common with fewer cores than threads, or it
 * waited for a lock or a page. The number of the thread's voluntary context switches tells
 * which. */
#include "tests/bench/walk/stacks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#define STACKS       100000u
#define SIZE         40000u /* nearly always sampled at 4 KiB */
#define MOST_THREADS 8u
#define BINS         512u  /* eight per power of two */
#define SLOW_NS      50000 /* from here on, check whether the thread waited */

struct times {
    uint64_t bins[BINS], pairs;
    uint64_t worst_ns, waited_ns; /* the longest time, and the longest with a wait */
    uint64_t waited_long;         /* more than a millisecond */
    long waits;
};

static void *volatile kept[STACKS];
static _Atomic int runs;
static unsigned thread_count;
static pthread_t threads[MOST_THREADS];
static struct times times[MOST_THREADS];

static void keep(void *context) {
    kept[*(unsigned *)context] = malloc(SIZE);
}

static void hold(void) {
    for (unsigned i = 0; i < STACKS; i++)
        stacks_enter(25, i * 2654435761u, keep, &i);
}

static unsigned bin_of(uint64_t ns) {
    unsigned top = 63 - (unsigned)__builtin_clzll(ns | 8);
    return top * 8 + (ns >> (top - 3) & 7);
}

static uint64_t bin_end(unsigned bin) {
    return (8 + bin % 8 + 1ull) << (bin / 8 - 3);
}

static long waits_so_far(void) {
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nvcsw;
}

static void ask_why(struct times *mine, uint64_t ns) {
    long waits = waits_so_far();
    if (waits != mine->waits) {
        mine->waited_ns = ns > mine->waited_ns ? ns : mine->waited_ns;
        mine->waited_long += ns > 1000000;
    }
    mine->waits = waits;
}

static void *allocate(void *context) {
    struct times *mine = context;
    *mine = (struct times){.waits = waits_so_far()};
    while (runs) {
        uint64_t start = stacks_now_ns();
        void *volatile block = malloc(
            64 + mine->pairs % 3000); /* volatile: the compiler would remove an unused pair */
        free(block);
        uint64_t ns = stacks_now_ns() - start;
        if (ns > SLOW_NS)
            ask_why(mine, ns);
        mine->worst_ns = ns > mine->worst_ns ? ns : mine->worst_ns;
        mine->bins[bin_of(ns)]++;
        mine->pairs++;
    }
    return NULL;
}

static void begin(unsigned count) {
    runs = 1;
    thread_count = count;
    for (unsigned i = 0; i < count; i++)
        pthread_create(&threads[i], NULL, allocate, &times[i]);
}

static void add(struct times *sum, const struct times *one) {
    for (unsigned i = 0; i < BINS; i++)
        sum->bins[i] += one->bins[i];
    sum->pairs += one->pairs;
    sum->waited_long += one->waited_long;
    sum->worst_ns = one->worst_ns > sum->worst_ns ? one->worst_ns : sum->worst_ns;
    sum->waited_ns = one->waited_ns > sum->waited_ns ? one->waited_ns : sum->waited_ns;
}

/* The time in us that at least `of_million` of a million pairs did not exceed. */
static double quantile(const struct times *sum, uint64_t of_million) {
    uint64_t longer = (uint64_t)((double)sum->pairs * (double)(1000000 - of_million) / 1e6);
    unsigned at = BINS;
    for (uint64_t seen = 0; at > 24 && seen <= longer; at--)
        seen += sum->bins[at - 1];
    return (double)bin_end(at) / 1e3;
}

static void end(void) {
    static struct times sum;
    sum = (struct times){0};
    runs = 0;
    for (unsigned i = 0; i < thread_count; i++) {
        pthread_join(threads[i], NULL);
        add(&sum, &times[i]);
    }
    fprintf(stderr, "%8.1f %8.2f %8.2f %9.1f %9.1f %9.1f %9llu\n", (double)sum.pairs / 1e6,
            quantile(&sum, 990000), quantile(&sum, 999000), quantile(&sum, 999999),
            (double)sum.worst_ns / 1e3, (double)sum.waited_ns / 1e3,
            (unsigned long long)sum.waited_long);
}

int main(void) {
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        if (line[0] == 'h')
            hold();
        if (line[0] == '1' || line[0] == '8')
            begin((unsigned)(line[0] - '0'));
        if (line[0] == 'e')
            end();
        putchar(line[0]);
        fflush(stdout);
    }
    return 0;
}
