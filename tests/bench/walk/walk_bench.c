/* SPDX-License-Identifier: Apache-2.0
 *
 * Measures the ns per walk and per frame at depths 10, 40 and 100, also of libunwind and (in
 * libgcc_bench, a program of their own) of libgcc and glibc. Then it measures what building and
 * checking a table costs. The cost of a frame is the slope between depths 10 and 100.
 *
 *     walk_bench [ELF files to build tables of...] */
#include "service/unwind/table/table.h"
#include "service/unwind/table/table_build.h"
#include "tests/bench/walk/stacks.h"
#include "tests/unit/unwind/modules.h"

#define UNW_LOCAL_ONLY
#include <fcntl.h>
#include <libunwind.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define MANY        64 /* different stacks, walked in turn */
#define MAX_METHODS 8
#define STACK_BYTES (256u << 10)

static struct modules modules;
static struct walk_cache cache;
static struct walk_bounds bounds;
static ucontext_t context;
static uint64_t pcs[128];
static struct walk_result result;
static volatile uint64_t sink;

static void walk_warm(unsigned times) {
    for (unsigned i = 0; i < times; i++)
        walk_from_context(&context, &modules.map, &cache, &bounds, pcs, 127, &result);
}

/* Each walk has a generation of its own, so that it finds nothing in the cache. */
static void walk_cold(unsigned times) {
    for (unsigned i = 0; i < times; i++) {
        modules.map.generation++;
        walk_from_context(&context, &modules.map, &cache, &bounds, pcs, 127, &result);
    }
}

static struct {
    ucontext_t context, caller, runner;
    struct walk_stack stack;
} many[MANY];

/* Walks different stacks in an order that the branch predictor cannot learn. */
static void walk_many(unsigned times) {
    static uint32_t state = 1;
    for (unsigned i = 0; i < times; i++) {
        state = state * 1664525u + 1013904223u;
        unsigned which = (state >> 16) % MANY;
        struct walk_bounds one = {.thread = many[which].stack};
        walk_from_context(&many[which].context, &modules.map, &cache, &one, pcs, 127, &result);
    }
}

static void step_libunwind(unsigned times) {
    for (unsigned i = 0; i < times; i++) {
        unw_cursor_t cursor;
        unw_init_local2(&cursor, &context, UNW_INIT_SIGNAL_FRAME);
        do {
            unw_word_t pc;
            unw_get_reg(&cursor, UNW_REG_IP, &pc);
            sink = pc;
        } while (unw_step(&cursor) > 0);
    }
}

static void backtrace_libunwind(unsigned times) {
    void *frames[128];
    for (unsigned i = 0; i < times; i++)
        sink = (uint64_t)unw_backtrace(frames, 128);
}

static const struct stacks_method methods[] = {
    {"compact table, warm", walk_warm, 2000},
    {"compact table, warm, 64 stacks at random", walk_many, 2000},
    {"compact table, cold cache", walk_cold, 500},
    {"libunwind unw_backtrace, warm (not signal-safe)", backtrace_libunwind, 500},
    {"libunwind init_local2 + step", step_libunwind, 20},
};
#define METHODS (sizeof methods / sizeof *methods)

struct row {
    const char *name;
    struct stacks_times ns[STACKS_SIZES];
};
static struct row rows[MAX_METHODS];
static unsigned row_count = METHODS;

static void measure(void *size) {
    struct stacks_times times[METHODS];
    getcontext(&context);
    stacks_measure(methods, METHODS, times);
    for (unsigned i = 0; i < METHODS; i++) {
        rows[i].name = methods[i].name;
        rows[i].ns[*(int *)size] = times[i];
    }
}

static unsigned many_depth;

static void keep_context(void *index) {
    unsigned which = *(unsigned *)index;
    swapcontext(&many[which].context, &many[which].caller);
}

static void run_one(unsigned which) {
    stacks_enter(many_depth, which * 7919 + 1, keep_context, &which);
}

static void make_many(unsigned depth) {
    many_depth = depth;
    for (unsigned i = 0; i < MANY; i++) {
        if (!many[i].stack.low) {
            void *stack =
                mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            many[i].stack = (struct walk_stack){(uint64_t)stack, (uint64_t)stack + STACK_BYTES};
        }
        getcontext(&many[i].runner);
        many[i].runner.uc_stack.ss_sp = (void *)many[i].stack.low;
        many[i].runner.uc_stack.ss_size = STACK_BYTES;
        makecontext(&many[i].runner, (void (*)(void))run_one, 1, i);
        swapcontext(&many[i].caller, &many[i].runner);
    }
}

/* Reads the lines that libgcc_bench prints: depth, median, best, name. */
static void read_peers(const char *self) {
    char command[4096], name[128];
    struct stacks_times ns;
    unsigned depth;
    snprintf(command, sizeof command, "%.*s/libgcc_bench", (int)(strrchr(self, '/') - self), self);
    FILE *peers = popen(command, "re");
    while (peers &&
           fscanf(peers, "%u %lf %lf %127[^\n]", &depth, &ns.median, &ns.best, name) == 4) {
        unsigned at = METHODS;
        while (at < row_count && strcmp(rows[at].name, name) != 0)
            at++;
        if (at == MAX_METHODS)
            break;
        if (at == row_count)
            rows[row_count++].name = strdup(name);
        for (int i = 0; i < STACKS_SIZES; i++)
            if (stacks_depths[i] == depth)
                rows[at].ns[i] = ns;
    }
    if (peers)
        pclose(peers);
}

static double slope(double shallow, double deep) {
    return (deep - shallow) / (stacks_depths[2] - stacks_depths[0]);
}

static void print_machine(void) {
    struct utsname name;
    double load = 0;
    char paranoid[16] = "?";
    struct timespec tick;
    uname(&name);
    clock_getres(CLOCK_MONOTONIC_COARSE, &tick);
    getloadavg(&load, 1);
    FILE *file = fopen("/proc/sys/kernel/perf_event_paranoid", "re");
    if (file && fgets(paranoid, sizeof paranoid, file))
        paranoid[strcspn(paranoid, "\n")] = 0;
    if (file)
        fclose(file);
    printf("%ld cores, load %.1f, Linux %s, HZ %ld, perf_event_paranoid %s; medians (and bests) of "
           "%d\n",
           sysconf(_SC_NPROCESSORS_ONLN), load, name.release, 1000000000 / tick.tv_nsec, paranoid,
           STACKS_ROUNDS);
}

static void print_rows(void) {
    double ours = slope(rows[0].ns[0].median, rows[0].ns[2].median);
    printf("\n%-48s %8s %8s %8s %9s %8s %7s\n", "ns of a walk at depth", "10", "40", "100",
           "ns/frame", "(best)", "ratio");
    for (unsigned i = 0; i < row_count; i++) {
        const struct stacks_times *ns = rows[i].ns;
        double frame = slope(ns[0].median, ns[2].median);
        printf("%-48s %8.0f %8.0f %8.0f %9.2f %8.2f %6.1fx\n", rows[i].name, ns[0].median,
               ns[1].median, ns[2].median, frame, slope(ns[0].best, ns[2].best), frame / ours);
    }
}

static void bench_build(const char *path) {
    double build[STACKS_ROUNDS], check[STACKS_ROUNDS];
    struct sonde_buf table = {0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    for (int i = 0; i < STACKS_ROUNDS; i++) {
        sonde_buf_finish(&table);
        uint64_t start = stacks_now_ns();
        if (unwind_table_build(fd, &table, NULL) != SONDE_OK)
            return;
        uint64_t built = stacks_now_ns();
        sink = (uint64_t)unwind_table_check(table.data, table.len);
        build[i] = (double)(built - start);
        check[i] = (double)(stacks_now_ns() - built);
    }
    const struct unwind_header *header = (const struct unwind_header *)table.data;
    struct stacks_times times = stacks_summary(build, STACKS_ROUNDS);
    printf("%-48s %8u %9u %8.2f %9.2f %8.0f %8.0f %8.2f\n", strrchr(path, '/') + 1,
           header->fde_count, header->row_count, (double)table.len / header->row_count,
           times.median / 1e6, times.median / header->fde_count, times.best / header->fde_count,
           stacks_summary(check, STACKS_ROUNDS).median / 1e6);
    sonde_buf_finish(&table);
    close(fd);
}

int main(int argc, char **argv) {
    static const char *const usual[] = {
        "/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
        "/usr/bin/python3.11", "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1"};
    modules_init(&modules);
    bounds.thread = modules.stack;
    print_machine();
    for (int size = 0; size < STACKS_SIZES; size++) {
        make_many(stacks_depths[size]);
        stacks_enter(stacks_depths[size], 7, measure, &size);
    }
    read_peers(argv[0]);
    print_rows();
    printf("\n%-48s %8s %9s %8s %9s %8s %8s %8s\n", "table of", "FDEs", "rows", "B/row", "build ms",
           "ns/FDE", "(best)", "check ms");
    for (int i = 1; i < argc; i++)
        bench_build(argv[i]);
    for (size_t i = 0; argc == 1 && i < sizeof usual / sizeof *usual; i++)
        bench_build(usual[i]);
    return 0;
}
