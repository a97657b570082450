/* SPDX-License-Identifier: Apache-2.0
 *
 * glibc's malloc with Sonde's sampler: with unpatched imports, with patched imports but no samples,
 * and at three sampling densities. With IN_HOOKS the same with the sampler in the hooks of a
 * jemalloc that is part of the program. */
#include "tests/bench/heap/workload.h"
#include "tests/unit/guest/heap/sampler_fixture.h"
#include "tests/unit/unwind/modules.h"

#include <stdio.h>
#include <stdlib.h>

#define METHODS 5u
#define PAIRS   1000000u

static struct modules modules;

static uint64_t samples(void) {
    return fixture_totals().samples;
}

#ifdef IN_HOOKS
#define ALLOCATOR "jemalloc in the program"
#define OFF       "off: no hooks"
#define start     fixture_start_window
#define stop      fixture_stop_window

int mallctl(const char *name, void *old, size_t *old_bytes, void *value, size_t bytes);

static bool find(void) {
    return fixture_find_mallctl((const void *)mallctl);
}
#else
#define ALLOCATOR "glibc"
#define OFF       "off: imports as they were"
#define start     fixture_start
#define stop      fixture_stop

static bool find(void) {
    return true;
}
#endif

static void open_at(uint64_t mean) {
    if (start(mean, 0) != 0)
        exit(1);
}

#define BEGIN(name, mean)    \
    static void name(void) { \
        open_at(mean);       \
    }
BEGIN(far, 1ull << 40)
BEGIN(at_19, 1 << 19)
BEGIN(at_16, 1 << 16)
BEGIN(at_12, 1 << 12)

static const struct workload_method methods[METHODS] = {
    {OFF, NULL, NULL, NULL, 0},
    {"on, nothing taken", far, stop, samples, 0},
    {"lg 19", at_19, stop, samples, 1 << 19},
    {"lg 16", at_16, stop, samples, 1 << 16},
    {"lg 12", at_12, stop, samples, 1 << 12},
};

static void print(enum workload_mix mix, unsigned depth) {
    struct workload_times times[METHODS];
    workload_choose(mix);
    workload_measure(methods, METHODS, depth, PAIRS, times);
    printf("\n%s, %s, depth %u (%.0f B)  ns a pair: median   best        over off   a sample\n",
           ALLOCATOR, workload_name(mix), depth, workload_average());
    for (unsigned i = 0; i < METHODS; i++) {
        double over = times[i].median - times[0].median;
        printf("  %-38s %8.1f %8.1f %9.1f", methods[i].name, times[i].median, times[i].best, over);
        if (times[i].samples_per_pair > 0)
            printf(" %9.2f us",
                   (times[i].median - times[1].median) / times[i].samples_per_pair / 1000);
        printf("\n");
    }
#ifndef IN_HOOKS
    printf("  goals: 0 ns off (the same code), <= 4 ns a pair at lg 19 (here %.1f), <= 1 us a "
           "sample\n",
           times[2].median - times[0].median);
#endif
}

int main(void) {
    if (!find())
        return 1;
    modules_init(&modules);
    fixture_publish(&modules.map, &modules.stack);
    print(WORKLOAD_SMALL, 40);
    print(WORKLOAD_MIXED, 10);
    print(WORKLOAD_MIXED, 40);
    return 0;
}
