/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/perf_data/parts.h"

#include "tests/unit/check.h"

static bool follow_comm(struct recorded_processes *processes, int32_t pid, const char *name) {
    const struct perf_file_record record = {
        .kind = PERF_FILE_COMM, .pid = pid, .tid = pid, .comm = {.name = name}};
    return recorded_processes_follow(processes, &record, NULL);
}

TEST(processes_beyond_their_limit_have_no_names_and_are_counted_together) {
    struct recorded_processes processes;
    recorded_processes_init(&processes);
    for (int32_t pid = 1; pid <= (int32_t)RECORDED_MAX_TASKS; pid++)
        CHECK(follow_comm(&processes, pid, "server"));
    CHECK(follow_comm(&processes, RECORDED_MAX_TASKS + 1, "late"));
    CHECK_INT(processes.count, ==, RECORDED_MAX_TASKS);
    CHECK_INT(processes.thread_count, ==, RECORDED_MAX_TASKS);
    CHECK(recorded_processes_sampled(&processes, RECORDED_MAX_TASKS + 1) == NULL);
    CHECK(recorded_processes_sampled(&processes, RECORDED_MAX_TASKS) != NULL);
    CHECK_STR(recorded_thread_name(&processes, RECORDED_MAX_TASKS + 1, NULL), "");
    recorded_processes_finish(&processes);
}

/* A sample of one pc. */
static bool add_sample(struct recorded_counts *counts, struct recorded_code *code,
                       struct recorded_processes *processes, uint64_t pc) {
    const struct perf_file_record record = {
        .kind = PERF_FILE_SAMPLE, .pid = 7, .tid = 7, .sample = {.period = 10, .ip = pc}};
    return recorded_counts_add(counts, code, processes, &record);
}

TEST(stacks_beyond_the_limit_are_counted_as_one_and_no_sample_is_lost) {
    struct recorded_counts counts;
    struct recorded_code code = {0};
    struct recorded_processes processes;
    uint64_t samples = 0, amount = 0;
    recorded_processes_init(&processes);
    CHECK_INT(recorded_counts_init(&counts), ==, SONDE_OK);
    counts.limit = 2;
    for (uint64_t pc = 1; pc <= 5; pc++)
        CHECK(add_sample(&counts, &code, &processes, pc));
    CHECK_INT(counts.count, ==, 3);
    CHECK_INT(counts.other_samples, ==, 3);
    for (uint32_t i = 0; i < counts.count; i++) {
        samples += counts.items[i].samples;
        amount += counts.items[i].amount;
    }
    CHECK_INT(samples, ==, 5);
    CHECK_INT(amount, ==, 50);
    recorded_counts_finish(&counts);
    recorded_processes_finish(&processes);
}

TEST(known_stacks_are_counted_apart_after_the_limit) {
    struct recorded_counts counts;
    struct recorded_code code = {0};
    struct recorded_processes processes;
    recorded_processes_init(&processes);
    CHECK_INT(recorded_counts_init(&counts), ==, SONDE_OK);
    counts.limit = 1;
    for (int i = 0; i < 3; i++)
        CHECK(add_sample(&counts, &code, &processes, 1));
    CHECK_INT(counts.items[0].samples, ==, 3);
    CHECK_INT(counts.other_samples, ==, 0);
    recorded_counts_finish(&counts);
    recorded_processes_finish(&processes);
}
