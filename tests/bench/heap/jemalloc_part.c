/* SPDX-License-Identifier: Apache-2.0
 *
 * jemalloc with its own sampler: inactive; with its own backtrace (libgcc's); with Sonde's; and
 * with a stack of the same depth that was walked before, which leaves only jemalloc's own work.
 * Then jemalloc's own dump of many stacks. */
#include "tests/bench/heap/workload.h"
#include "tests/bench/walk/stacks.h"
#include "tests/unit/guest/heap/sampler_fixture.h"
#include "tests/unit/unwind/modules.h"

#include <jemalloc/jemalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#define HOOK    "experimental.hooks.prof_backtrace"
#define METHODS 10u
#define PAIRS   1000000u
#define STACKS  100000u

static struct modules modules;
static fixture_backtrace *original;
static size_t lg;
static fixture_backtrace *wanted;

static void set_active(bool active) {
    mallctl("prof.active", NULL, NULL, &active, sizeof active);
}

static void begin(void) {
    mallctl("prof.reset", NULL, NULL, &lg, sizeof lg);
    mallctl(HOOK, NULL, NULL, &wanted, sizeof wanted);
    set_active(true);
}

static void end(void) {
    set_active(false);
}

static void *known_pcs[128];
static unsigned known_count;

/* Returns a stack that was walked before, so that only jemalloc's own work is measured. */
static void no_walk(void **pcs, unsigned *count, unsigned most) {
    if (!known_count)
        fixture_hook(original)(known_pcs, &known_count, most);
    memcpy(pcs, known_pcs, known_count * sizeof *pcs);
    *count = known_count;
}

#define BEGIN(name, wanted_lg, function) \
    static void name(void) {             \
        lg = wanted_lg;                  \
        wanted = function;               \
        begin();                         \
    }
BEGIN(own_19, 19, original)
BEGIN(ours_19, 19, fixture_hook(original))
BEGIN(none_19, 19, no_walk)
BEGIN(own_16, 16, original)
BEGIN(ours_16, 16, fixture_hook(original))
BEGIN(none_16, 16, no_walk)
BEGIN(own_12, 12, original)
BEGIN(ours_12, 12, fixture_hook(original))
BEGIN(none_12, 12, no_walk)

static const struct workload_method methods[METHODS] = {
    {"prof:true, inactive", NULL, NULL, NULL, 0},
    {"lg 19, its own backtrace", own_19, end, NULL, 1 << 19},
    {"lg 19, our hook", ours_19, end, NULL, 1 << 19},
    {"lg 19, no walk", none_19, end, NULL, 1 << 19},
    {"lg 16, its own backtrace", own_16, end, NULL, 1 << 16},
    {"lg 16, our hook", ours_16, end, NULL, 1 << 16},
    {"lg 16, no walk", none_16, end, NULL, 1 << 16},
    {"lg 12, its own backtrace", own_12, end, NULL, 1 << 12},
    {"lg 12, our hook", ours_12, end, NULL, 1 << 12},
    {"lg 12, no walk", none_12, end, NULL, 1 << 12},
};

static void print_goals(enum workload_mix mix, const struct workload_times *times) {
    if (mix == WORKLOAD_SMALL)
        printf("  goals: our hook <= 26 ns at lg 16 (here %.1f), <= 115 ns at lg 12 (%.1f)\n",
               times[5].median, times[8].median);
    else
        printf("  goals: our hook <= +25 %% at lg 19 (here %+.0f %%), <= 0.8 us a sample\n",
               100 * (times[2].median / times[0].median - 1));
}

static void print(enum workload_mix mix, unsigned depth) {
    struct workload_times times[METHODS];
    workload_choose(mix);
    known_count = 0;
    workload_measure(methods, METHODS, depth, PAIRS, times);
    printf(
        "\njemalloc, %s, depth %u (%.0f B)  ns a pair: median   best   over inactive   a sample\n",
        workload_name(mix), depth, workload_average());
    for (unsigned i = 0; i < METHODS; i++) {
        double over = times[i].median - times[0].median;
        printf("  %-38s %8.1f %8.1f %9.1f", methods[i].name, times[i].median, times[i].best, over);
        if (times[i].samples_per_pair > 0)
            printf(" %9.2f us", over / times[i].samples_per_pair / 1000);
        if (i % 3 == 2 && over >= 0.5) /* less is noise */
            printf("   %.1fx cheaper a pair over inactive",
                   (times[i - 1].median - times[0].median) / over);
        printf("\n");
    }
    print_goals(mix, times);
}

static void *volatile kept[STACKS];

static void keep(void *context) {
    kept[*(unsigned *)context] = malloc(64);
}

static void dump_many(void) {
    char path[64];
    const char *name = path;
    struct stat file;
    lg = 0;
    wanted = fixture_hook(original);
    begin();
    for (unsigned i = 0; i < STACKS; i++)
        stacks_enter(25, i * 2654435761u, keep, &i);
    int fd = memfd_create("dump", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    uint64_t start = workload_cpu_ns();
    int error = mallctl("prof.dump", NULL, NULL, &name, sizeof name);
    uint64_t ns = workload_cpu_ns() - start;
    fstat(fd, &file);
    end();
    printf("\njemalloc, prof.dump of %u stacks: %.1f ms CPU, %.1f MB%s\n", STACKS, (double)ns / 1e6,
           (double)file.st_size / 1e6, error ? " (failed)" : "");
}

int main(void) {
    size_t size = sizeof original;
    modules_init(&modules);
    fixture_publish(&modules.map, &modules.stack);
    if (mallctl(HOOK, &original, &size, NULL, 0) != 0 || !original) {
        printf("jemalloc: no profiling in this build, or MALLOC_CONF does not have prof:true\n");
        return 0;
    }
    print(WORKLOAD_SMALL, 40);
    print(WORKLOAD_MIXED, 10);
    print(WORKLOAD_MIXED, 40);
    dump_many();
    return 0;
}
