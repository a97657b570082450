/* SPDX-License-Identifier: Apache-2.0
 *
 * Many threads: few descriptors, little memory, and no loss while sonded does not read. */
#include "tests/unit/guest/scene.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define MANY        10000
#define THREAD_KIB  32
#define DESCRIPTORS 1024

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static long status_kib(pid_t pid, const char *name) {
    char path[64], line[256];
    long value = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    CHECK(file);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0)
            value = atol(line + strlen(name));
    fclose(file);
    return value;
}

/* Resident memory without the rings, which do not grow with threads. */
static long own_kib(pid_t pid) {
    return status_kib(pid, "VmRSS:") - status_kib(pid, "RssShmem:");
}

static void begin_crowd(struct scene *scene, uint64_t wall_period_ns) {
    struct rlimit before, few;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    few = before;
    few.rlim_cur = DESCRIPTORS;
    CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0); /* the program inherits it */
    struct line ready = scene_begin(scene, "idle", MANY);
    setrlimit(RLIMIT_NOFILE, &before);
    scene->guest.wall_period_ns = wall_period_ns;
    if (ready.a < MANY) {
        fake_poke(&scene->child);
        fake_poke(&scene->child);
        check_skip("only %lld threads can be made here", ready.a);
    }
}

static void measure_crowd(uint64_t wall_period_ns, const char *mode) {
    struct scene scene;
    begin_crowd(&scene, wall_period_ns);
    long before_kib = own_kib(scene.child.pid);
    double begin = now_s();
    scene_capture(&scene, HZ(99), BEST);
    double started = now_s();
    CHECK_INT(scene.guest.state.threads, >=, MANY);
    CHECK(strstr(scene.guest.state.note, "threads by timer") != NULL);
    CHECK(strstr(scene.guest.state.note, "without a clock") == NULL);
    scene_pump_line(&scene);
    fake_pump(&scene.guest, 1500);
    long after_kib = own_kib(scene.child.pid);
    double stopping = now_s();
    fake_stop(&scene.guest);
    printf("%s: start %.2f s, stop %.2f s, %.1f KiB a thread\n", mode, started - begin,
           now_s() - stopping, (double)(after_kib - before_kib) / MANY);
    CHECK_INT((after_kib - before_kib) / MANY, <=, THREAD_KIB);
    CHECK_INT(fake_drops(&scene.guest), ==, 0);
    scene_end(&scene);
}

/* E17. */
TEST(ten_thousand_threads_need_few_descriptors_and_little_memory) {
    measure_crowd(0, "CPU");
}

TEST(ten_thousand_threads_are_observed_within_the_same_bounds) {
    measure_crowd(HZ(99), "wall clock");
}

/* E27: sonded does not read for a second. */
TEST(a_reader_that_stalls_for_a_second_loses_nothing) {
    struct scene scene;
    scene_begin(&scene, "steady_crowd", 64);
    scene_capture(&scene, HZ(999), BEST);
    fake_pump(&scene.guest, 500);
    sleep(1);
    struct line used = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    for (int cause = 0; cause < RING_DROP_COUNT; cause++)
        CHECK_INT(scene.guest.rings->drops[cause] << cause, ==, 0);
    double seen = (double)(fake_weight(&scene.guest, 0) + fake_unseen_sum(&scene.guest, 0, 0));
    CHECK_NEAR(seen / (double)used.a, 1.0, 0.05);
    scene_end(&scene);
}
