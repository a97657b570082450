/* SPDX-License-Identifier: Apache-2.0
 *
 * What the BPF program adds to a switch. Two threads of one process wake each other in turn on one
 * CPU, each below 40 frames, so every wait is a switch and nothing else runs. The rows run
 * interleaved; each figure is a median of rounds. */
#include "service/host/bpf/off_cpu.h"

#include "tests/bench/off_cpu/get_stack.skel.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS   15
#define SWITCHES 50000u
#define DEPTH    40

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- The two threads --------------------------------------------------------------------------*/

static _Atomic uint32_t turn;

static void take_turns(uint32_t own) {
    for (uint32_t i = 0; i < SWITCHES / 2; i++) {
        uint32_t seen;
        while ((seen = atomic_load(&turn)) % 2 != own)
            syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        atomic_fetch_add(&turn, 1);
        syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}

/* Frames of about 100 bytes. */
__attribute__((noinline)) static uint32_t descend(uint32_t depth, uint32_t own) {
    volatile char frame[48] = {0};
    if (depth == 0)
        take_turns(own);
    else
        frame[1] = (char)descend(depth - 1, own);
    return (uint32_t)frame[1] + 1;
}

static void *run_thread(void *own) {
    descend(DEPTH, (uint32_t)(uintptr_t)own);
    return NULL;
}

static double ns_per_switch(void) {
    pthread_t threads[2];
    turn = 0;
    uint64_t from = now_ns();
    for (uintptr_t i = 0; i < 2; i++) {
        if (pthread_create(&threads[i], NULL, run_thread, (void *)i))
            exit(1);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    return (double)(now_ns() - from) / SWITCHES;
}

/* --- The rows ---------------------------------------------------------------------------------*/

struct row {
    const char *name;
    uint32_t stack_bytes; /* 0 = no program of ours */
    bool is_other, is_walk;
    uint64_t threshold_ns, period_ns;
    double ns[ROUNDS];
};

static struct row rows[] = {
    {.name = "no program"},
    {.name = "loaded, another process watched", .stack_bytes = 4096, .is_other = true},
    {.name = "1 KiB copied, nothing sent", .stack_bytes = 1024, .threshold_ns = 1ull << 40},
    {.name = "4 KiB copied, nothing sent", .stack_bytes = 4096, .threshold_ns = 1ull << 40},
    {.name = "8 KiB copied, nothing sent", .stack_bytes = 8192, .threshold_ns = 1ull << 40},
    {.name = "16 KiB copied, nothing sent", .stack_bytes = 16384, .threshold_ns = 1ull << 40},
    {.name = "4 KiB copied, one per 10 ms sent", .stack_bytes = 4096, .period_ns = 10000000},
    {.name = "4 KiB copied, all sent", .stack_bytes = 4096},
    {.name = "bpf_get_stack, nothing sent", .is_walk = true},
};
#define ROWS (sizeof rows / sizeof *rows)

static void check(bool ok, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void on_record(void *context, const struct host_record *record) {
}

static double run_ours(const struct row *row) {
    struct off_cpu_options options = {.max_threads = 64,
                                      .threshold_ns = row->threshold_ns,
                                      .period_ns = row->period_ns,
                                      .stack_bytes = row->stack_bytes};
    struct off_cpu *off_cpu;
    struct sonde_diag diag = {0};
    check(off_cpu_open(&options, &off_cpu, &diag) == SONDE_OK, diag.text);
    check(off_cpu_watch(off_cpu, row->is_other ? 1 : getpid(), true), "watch");
    double ns = ns_per_switch();
    (void)off_cpu_drain(off_cpu, on_record, NULL, NULL);
    off_cpu_close(off_cpu);
    return ns;
}

static uint64_t walked_frames;

static double run_walk(void) {
    struct get_stack_bpf *program = get_stack_bpf__open_and_load();
    check(program && get_stack_bpf__attach(program) == 0, "cannot load bpf_get_stack's program");
    program->bss->watched = getpid();
    double ns = ns_per_switch();
    walked_frames = program->bss->frames;
    get_stack_bpf__destroy(program);
    return ns;
}

static double run(const struct row *row) {
    if (row->is_walk)
        return run_walk();
    return row->stack_bytes ? run_ours(row) : ns_per_switch();
}

static int by_value(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

int main(void) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    check(sched_setaffinity(0, sizeof one, &one) == 0, "cannot stay on one CPU");
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < ROWS; i++)
            rows[i].ns[round] = run(&rows[i]);
    }
    for (size_t i = 0; i < ROWS; i++)
        qsort(rows[i].ns, ROUNDS, sizeof(double), by_value);
    printf("%-34s %10s %10s %10s\n", "ns per switch", "median", "added", "lowest");
    for (size_t i = 0; i < ROWS; i++) {
        double *ns = rows[i].ns, median = ns[ROUNDS / 2];
        printf("%-34s %10.0f %10.0f %10.0f\n", rows[i].name, median,
               median - rows[0].ns[ROUNDS / 2], ns[0]);
    }
    printf("bpf_get_stack found %llu frames\n", (unsigned long long)walked_frames);
    return 0;
}
