/* SPDX-License-Identifier: Apache-2.0
 *
 * Which process samples belong to when a process ends. */
#include "tests/unit/engine/host/fake_rings.h"

#include <stdlib.h>

static struct engine_selector tree(const struct bench *bench) {
    return (struct engine_selector){.pid = bench->child, .all = true};
}

/* The capture's downsampler begins at a random phase. */
#define CHECK_COUNT(actual, expected) CHECK_NEAR(actual, expected, 1)

TEST(a_process_that_has_ended_before_its_maps_were_read_is_a_note) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    push_fork(&bench, bench.child, GHOST, GHOST); /* the parent's maps are not known */
    push_samples(&bench, GHOST, 20);
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_COUNT(collect_sum(profile, "[process ended]"), 20);
    CHECK_NEAR(atoi(collect_comment(profile, "cut stacks: process ended ") + 26), 20, 1);
    bench_finish(&bench);
}

TEST(a_reused_pid_is_not_credited_to_the_process_that_had_it) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    bench_load(&bench);
    push_fork(&bench, bench.child, GHOST, GHOST);
    push_samples(&bench, GHOST, 20);
    push_exit(&bench, GHOST, GHOST);
    push_samples(&bench, GHOST, 5); /* of its exit */
    bench.time_ns += HOST_EXIT_NS;
    push_samples(&bench, GHOST, 30); /* of a process that something else has started */
    CHECK_COUNT(collect_sum(bench_end(&bench), NULL), 35);
    bench_finish(&bench);
}

TEST(a_process_ends_with_its_last_thread) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    bench_load(&bench);
    push_fork(&bench, bench.child, GHOST, GHOST);
    push_fork(&bench, GHOST, GHOST, GHOST + 1);
    push_exit(&bench, GHOST, GHOST); /* the first thread, not the last */
    for (int i = 0; i < 20; i++)
        push_sample(&bench, GHOST, GHOST + 1);
    push_exit(&bench, GHOST, GHOST + 1);
    bench.time_ns += HOST_EXIT_NS;
    push_samples(&bench, GHOST, 30);
    CHECK_COUNT(collect_sum(bench_end(&bench), NULL), 30);
    bench_finish(&bench);
}

/* Samples of a process that gives back its memory: there is no stack to copy. */
static void push_exiting(struct bench *bench, pid_t pid, uint32_t count) {
    static const uint64_t kernel[] = {0xffffffff81000000};
    for (uint32_t i = 0; i < count; i++) {
        struct host_record *record = push_record(bench, HOST_SAMPLE, pid, pid);
        record->sample = (struct host_sample){.weight_ns = bench->step_ns,
                                              .abi = HOST_ABI_64,
                                              .asked_bytes = HOST_FIRST_STACK,
                                              .kernel = kernel,
                                              .kernel_count = 1};
    }
}

TEST(a_process_that_gives_back_its_memory_keeps_its_name) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    bench_load(&bench);
    push_fork(&bench, bench.child, GHOST, GHOST);
    push_comm(&bench, GHOST, "ender", true);
    push_samples(&bench, GHOST, 20);
    push_exit(&bench, GHOST, GHOST);
    bench.time_ns += HOST_EXIT_NS;
    push_exiting(&bench, GHOST, 10);
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_COUNT(collect_sum(profile, NULL), 40);
    CHECK_COUNT(collect_sum(profile, "ender"), 30);
    bench_finish(&bench);
}

TEST(a_process_that_ended_long_ago_is_forgotten) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    bench_load(&bench);
    for (pid_t i = 0; i <= (pid_t)HOST_MAX_ENDED; i++) {
        push_fork(&bench, bench.child, GHOST + i, GHOST + i);
        push_comm(&bench, GHOST + i, "ender", true);
        push_exit(&bench, GHOST + i, GHOST + i);
    }
    push_exiting(&bench, GHOST, 10);     /* one too many have ended since then */
    push_exiting(&bench, GHOST + 1, 20); /* the oldest that is kept */
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_COUNT(collect_sum(profile, NULL), 30); /* the forgotten one's are nobody's */
    CHECK_COUNT(collect_sum(profile, "ender"), 20);
    bench_finish(&bench);
}
