/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the hostile program, which loads and unloads libraries, throws exceptions and walks the
 * loaded objects. Meanwhile the test switches the allocation sampler on and off, takes allocation
 * captures and samples the CPU. The program must not hang, crash or compute a wrong result.
 * STRESS_SECONDS sets the duration (default 4). */
#include "tests/unit/engine/heap/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROGRAM "tests/stress/hostile"
#define LIBRARY "tests/stress/libhostile.so"

static const char *seconds(void) {
    const char *asked = getenv("STRESS_SECONDS");
    return asked ? asked : "4";
}

static void read_line(struct stage *stage, const char *start, long long *a, long long *b) {
    char line[128];
    size_t len = 0;
    while (len + 1 < sizeof line && read(stage->from, line + len, 1) == 1 && line[len] != '\n')
        len++;
    line[len] = 0;
    CHECK(strncmp(line, start, strlen(start)) == 0);
    CHECK_INT(sscanf(line + strlen(start), " %lld %lld", a, b), ==, 2);
}

static void wait_for_samples(struct stage *stage) {
    int64_t total = 0;
    for (int i = 0; i < 500 && total == 0; i++) {
        usleep(10000);
        struct got got = stage_get(stage, (struct engine_heap_query){0});
        CHECK_INT(got.err, ==, SONDE_OK);
        total = sonde_profile_total(got.result.profile, 0);
        got_finish(&got);
    }
    CHECK_INT(total, >, 0);
}

/* One round: switches the sampler on, takes a capture of all allocations and a snapshot, and
 * switches the sampler off. */
static void disturb(struct stage *stage, int round) {
    static const uint64_t means[] = {4096, 65536, 1 << 20};
    struct engine_heap_request on = {.verb = ENGINE_HEAP_ACTIVATE,
                                     .backend = ENGINE_HEAP_INTERPOSED,
                                     .sample_bytes = means[round % 3]};
    struct engine_allocs_spec spec = {.target = stage->target, .probability = 1};
    struct collected window;
    struct engine_capture *capture;
    CHECK_INT(stage_ask(stage, on).err, ==, SONDE_OK);
    collect_init(&window);
    spec.duration_ms = 20;
    CHECK_INT(engine_capture_allocs(stage->engine, &spec, &collect_events, &window, &capture, NULL),
              ==, SONDE_OK);
    if (round % 2)
        engine_capture_cancel(capture);
    struct got got = stage_get(stage, (struct engine_heap_query){.raw = round % 4 == 0});
    CHECK_INT(got.err, ==, SONDE_OK);
    got_finish(&got);
    if (round % 8 == 4) /* the program allocates all the time */
        wait_for_samples(stage);
    if (round % 3 == 0)
        CHECK_INT(stage_ask_verb(stage, ENGINE_HEAP_DEACTIVATE).err, ==, SONDE_OK);
    collect_wait_end(&window);
    if (round % 3 != 0)
        CHECK_INT(stage_ask_verb(stage, ENGINE_HEAP_DEACTIVATE).err, ==, SONDE_OK);
    engine_capture_release(capture);
    collect_finish(&window);
}

TEST(survives_imports_that_are_patched_and_restored) {
    const char *const command[] = {PROGRAM, seconds(), LIBRARY, NULL};
    struct stage stage;
    struct collected cpu;
    struct engine_capture *capture;
    long long loads, throws, wrong, still;
    stage_init(&stage, NULL, command);
    read_line(&stage, "ready", &loads, &wrong);
    collect_init(&cpu);
    struct engine_cpu_spec spec = {.target = stage.target, .frequency_hz = 499};
    CHECK_INT(engine_capture_cpu(stage.engine, &spec, &collect_events, &cpu, &capture, NULL), ==,
              SONDE_OK);
    CHECK_INT(write(stage.to, "g", 1), ==, 1);
    time_t end = time(NULL) + atoi(seconds());
    int rounds = 0;
    while (time(NULL) < end)
        disturb(&stage, rounds++);
    read_line(&stage, "loads", &loads, &wrong);
    read_line(&stage, "throws", &throws, &still);
    printf("  %d rounds during %lld loads and %lld throws\n", rounds, loads, throws);
    CHECK_INT(wrong, ==, 0);
    CHECK_INT(still, <, 5);
    CHECK_INT(rounds, >, 2);
    CHECK(loads > 0 && throws > 0);
    engine_capture_finish(capture);
    collect_wait_end(&cpu);
    CHECK_INT(cpu.err, ==, SONDE_OK);
    engine_capture_release(capture);
    collect_finish(&cpu);
    int status = -1;
    CHECK_INT(write(stage.to, "g", 1), ==, 1);
    CHECK_INT(waitpid(stage.pid, &status, 0), ==, stage.pid);
    CHECK_INT(status, ==, 0);
    stage_finish(&stage);
}
