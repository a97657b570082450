/* SPDX-License-Identifier: Apache-2.0
 *
 * A snapshot of 100,000 stacks of a program with the guest, taken by a real engine with sonded's
 * allocator. Prints the CPU time of this process for each phase and the size of the result; the
 * program itself does no work. */
#include "api/profile/pprof/pprof.h"
#include "tests/bench/walk/stacks.h"
#include "tests/unit/engine/heap/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define MOST_ROUNDS 1001u
#define ROUNDS      15u

static double build_ms[MOST_ROUNDS], encode_ms[MOST_ROUNDS], total_ms[MOST_ROUNDS];

static double cpu_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static size_t take(struct stage *stage, unsigned round, struct sonde_buf *out) {
    double start = cpu_ms();
    struct got got = stage_get(stage, (struct engine_heap_query){.require_active = true});
    double built = cpu_ms();
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK_INT(sonde_pprof_write(got.result.profile, 1, out, NULL), ==, SONDE_OK);
    size_t stacks = sonde_profile_sample_count(got.result.profile);
    double encoded = cpu_ms();
    got_finish(&got);
    build_ms[round] = built - start;
    encode_ms[round] = encoded - built;
    total_ms[round] = cpu_ms() - start;
    return stacks;
}

static void print_row(const char *what, double *values, unsigned count) {
    double first = values[0];
    struct stacks_times times = stacks_summary(values, count);
    printf("  %-26s %8.1f %8.1f %8.1f\n", what, times.median, times.best, first);
}

static void print_profiles(struct stage *stage, unsigned rounds) {
    struct sonde_buf out = {0};
    size_t stacks = 0;
    for (unsigned round = 0; round < rounds; round++) {
        sonde_buf_finish(&out);
        stacks = take(stage, round, &out);
    }
    printf("\nSonde's sampler, snapshot of %zu stacks of 25 frames, %u rounds\n"
           "  ms of CPU                    median     best    first\n",
           stacks, rounds);
    print_row("read and named", build_ms, rounds);
    print_row("encoded and gzipped", encode_ms, rounds);
    print_row("all, and freed", total_ms, rounds);
    printf("  %.1f MB gzipped (goals: <= 60 ms, <= 6 MB)\n", (double)out.len / 1e6);
    sonde_buf_finish(&out);
}

static void print_text(struct stage *stage) {
    double start = cpu_ms();
    struct got got = stage_get(stage, (struct engine_heap_query){.raw = true});
    CHECK_INT(got.err, ==, SONDE_OK);
    printf("  as jemalloc's text: %.0f ms, %.1f MB\n", cpu_ms() - start,
           (double)got.result.text.len / 1e6);
    got_finish(&got);
}

/* SONDE_ROUNDS sets the number of rounds. */
TEST(snapshot) {
    static const char *const command[] = {"tests/bench/heap/holder", NULL};
    const char *wanted = getenv("SONDE_ROUNDS");
    unsigned long rounds = wanted ? strtoul(wanted, NULL, 10) : ROUNDS;
    struct stage stage;
    stage_init(&stage, NULL, command);
    struct engine_heap_request on = {.verb = ENGINE_HEAP_ACTIVATE, .sample_bytes = 4096};
    CHECK_INT(stage_ask(&stage, on).err, ==, SONDE_OK);
    stage_tell(&stage, 'h');
    print_profiles(&stage, rounds > 0 && rounds < MOST_ROUNDS ? (unsigned)rounds : ROUNDS);
    print_text(&stage);
    fflush(stdout);
    stage_finish(&stage);
}
