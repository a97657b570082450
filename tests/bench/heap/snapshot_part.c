/* SPDX-License-Identifier: Apache-2.0
 *
 * A snapshot of 100,000 stacks of a program under the guest, by a real engine: its CPU time here
 * (the program has no part in it), the size of the result, and how a thread of the program fares
 * meanwhile. */
#include "api/profile/pprof.h"
#include "tests/unit/heap/stage.h"

#include <stdio.h>
#include <time.h>

#define ROUNDS 5

static double cpu_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void print_profile(struct stage *stage, int round) {
    double start = cpu_ms();
    struct got got = stage_get(stage, (struct engine_heap_query){.require_active = true});
    double build = cpu_ms() - start;
    struct sonde_buf out = {0};
    CHECK_INT(got.err, ==, SONDE_OK);
    start = cpu_ms();
    CHECK_INT(sonde_pprof_write(got.result.profile, 1, &out, NULL), ==, SONDE_OK);
    double encode = cpu_ms() - start;
    printf("  profile %d: %zu stacks, %.0f ms CPU to read and name, %.0f ms to encode, %.1f MB "
           "gzipped (goal <= 60 ms, <= 6 MB; prof.dump above)\n",
           round, sonde_profile_sample_count(got.result.profile), build, encode,
           (double)out.len / 1e6);
    sonde_buf_finish(&out);
    got_finish(&got);
}

static void print_text(struct stage *stage) {
    double start = cpu_ms();
    struct got got = stage_get(stage, (struct engine_heap_query){.raw = true});
    CHECK_INT(got.err, ==, SONDE_OK);
    printf("  as jemalloc's text: %.0f ms CPU, %.1f MB\n", cpu_ms() - start,
           (double)got.result.text.len / 1e6);
    got_finish(&got);
}

TEST(snapshot) {
    static const char *const command[] = {"tests/bench/heap/holder", NULL};
    struct stage stage;
    stage_init(&stage, NULL, command);
    struct engine_heap_request on = {.verb = ENGINE_HEAP_ACTIVATE, .sample_bytes = 4096};
    CHECK_INT(stage_ask(&stage, on).err, ==, SONDE_OK);
    stage_tell(&stage, 'h');
    printf("\nour own sampler, snapshot of 100,000 stacks\n");
    stage_tell(&stage, 'b');
    for (int round = 0; round < ROUNDS; round++)
        print_profile(&stage, round);
    print_text(&stage);
    fflush(stdout);
    stage_tell(&stage, 'e');
    stage_finish(&stage);
}
