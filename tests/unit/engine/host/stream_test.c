/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/engine/host/fake_rings.h"

#include "service/host/processes/process_list.h"
#include "service/host/processes/process_text.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct engine_selector one(const struct bench *bench) {
    return (struct engine_selector){.pid = bench->child};
}

static struct engine_selector tree(const struct bench *bench) {
    return (struct engine_selector){.pid = bench->child, .all = true};
}

/* The capture's downsampler begins at a random phase. */
#define CHECK_COUNT(actual, expected) CHECK_NEAR(actual, expected, 1)

static bool has_loaded(struct bench *bench) {
    return fake.queued == 0 && !bench_target(bench)->host->stream->park.first;
}

static bool has_no_stream(struct bench *bench) {
    return !bench->engine->host->streams;
}

/* Ten samples, after which the maps and the tables of the child are known. */
static void load(struct bench *bench) {
    push_samples(bench, bench->child, 10);
    bench_settle(bench);
    bench_wait(bench, has_loaded);
    bench->time_ns = now_monotonic_ns();
}

TEST(samples_of_a_process_become_stacks_from_its_root_to_its_leaf) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, one(&bench));
    push_samples(&bench, bench.child, 50);
    push_samples(&bench, GHOST, 50); /* of another process */
    bench_settle(&bench);
    bench_wait(&bench, has_loaded);
    CHECK_INT(bench_target(&bench)->totals.handler_count, ==, 50); /* what max_overhead counts */
    const struct sonde_profile *profile = bench_end(&bench);
    bench_wait(&bench, has_no_stream);
    CHECK_INT(fake.open_sets, ==, 0);
    CHECK_COUNT(collect_sum(profile, NULL), 50);
    CHECK_COUNT(collect_sum(profile, "caller_of_leaf"), 50);
    CHECK_COUNT(collect_sum(profile, "root_of_stack"), 50);
    CHECK_STR(collect_comment(profile, "sampled:"), "sampled: from outside");
    CHECK_STR(collect_comment(profile, "clock"), ""); /* nothing better is known */
    CHECK_STR(collect_comment(profile, "cut stacks:"), "");
    CHECK_STR(collect_comment(profile, "dropped:"), "dropped: none");
    bench_finish(&bench);
}

/* perf tells one epoll only that a ring is half full, and that of the streams is the second. */
TEST(a_ring_that_is_half_full_is_drained_though_no_descriptor_says_so) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, one(&bench));
    bench.time_ns = now_monotonic_ns() - 1000 * MS;
    push_samples(&bench, bench.child, 20);
    host_on_readable(bench.engine);
    CHECK_INT(fake.queued, ==, 0);
    (void)bench_end(&bench);
    bench_finish(&bench);
}

TEST(frames_of_the_kernel_are_above_those_of_the_process) {
    static const uint64_t kernel[] = {0xffffffff81000010, 0xffffffff81000100};
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, one(&bench));
    for (int i = 0; i < 20; i++) {
        push_sample(&bench, bench.child, bench.child);
        struct host_record *record = push_record(&bench, HOST_SAMPLE, bench.child, bench.child);
        record->sample = (struct host_sample){.weight_ns = MS,
                                              .abi = HOST_ABI_NONE,
                                              .is_in_kernel = true,
                                              .kernel = kernel,
                                              .kernel_count = 2};
    }
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_COUNT(collect_sum(profile, NULL), 40);
    CHECK_COUNT(collect_sum(profile, "root_of_stack"), 20);
    struct sonde_mapping mapping = {0};
    bool has_kernel = false;
    for (uint32_t i = 1; i <= sonde_profile_mapping_count(profile); i++) {
        mapping = *sonde_profile_mapping(profile, i);
        has_kernel |=
            strcmp(sonde_profile_text(profile, mapping.filename), "[kernel.kallsyms]") == 0;
    }
    CHECK(has_kernel);
    bench_finish(&bench);
}

TEST(a_32_bit_program_is_a_note) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, one(&bench));
    for (int i = 0; i < 20; i++) {
        push_sample(&bench, bench.child, bench.child);
        struct host_record *record = push_record(&bench, HOST_SAMPLE, bench.child, bench.child);
        record->sample = (struct host_sample){.weight_ns = MS, .abi = HOST_ABI_32};
    }
    CHECK_COUNT(collect_sum(bench_end(&bench), "[32-bit program]"), 20);
    bench_finish(&bench);
}

TEST(a_forked_process_has_the_mappings_of_its_parent_until_it_calls_exec) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    load(&bench);
    push_fork(&bench, bench.child, GHOST, GHOST);
    push_samples(&bench, GHOST, 20);
    push_comm(&bench, GHOST, "other", true);
    push_samples(&bench, GHOST, 30); /* in code that is not mapped yet */
    push_own_mappings(&bench, GHOST);
    push_samples(&bench, GHOST, 40);
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_COUNT(collect_sum(profile, NULL), 100);
    CHECK_COUNT(collect_sum(profile, "root_of_stack"), 70);
    CHECK_COUNT(collect_sum(profile, "[no unwind table]"), 30);
    bench_finish(&bench);
}

TEST(a_program_that_has_just_begun_has_one_frame_and_its_name) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    load(&bench);
    push_fork(&bench, bench.child, GHOST, GHOST);
    push_comm(&bench, GHOST, "beginner", true);
    struct host_record *mapped = push_record(&bench, HOST_MMAP, GHOST, GHOST);
    mapped->mmap = (struct host_mmap){.start = 0x10000, .end = 0x20000, .path = "//anon"};
    for (int i = 0; i < 20; i++) {
        push_sample(&bench, GHOST, GHOST);
        struct host_record *record = push_record(&bench, HOST_SAMPLE, GHOST, GHOST);
        record->sample = (struct host_sample){.weight_ns = MS, .abi = HOST_ABI_64};
        record->sample.registers.value[UNWIND_REG_PC] = 0x10010;
        record->sample.registers.value[UNWIND_REG_SP] = 0x7ff000;
    }
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_COUNT(collect_sum(profile, "beginner"), 40);
    CHECK_COUNT(collect_sum(profile, "[no unwind table]"), 20); /* the others */
    bench_finish(&bench);
}

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

TEST(a_process_ends_with_its_last_thread) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    load(&bench);
    push_fork(&bench, bench.child, GHOST, GHOST);
    push_fork(&bench, GHOST, GHOST, GHOST + 1);
    push_exit(&bench, GHOST, GHOST); /* the first thread, not the last */
    for (int i = 0; i < 20; i++)
        push_sample(&bench, GHOST, GHOST + 1);
    struct host_stream *stream = bench_target(&bench)->host->stream;
    bench_settle(&bench);
    CHECK(!process_find(&stream->processes, GHOST)->has_ended);
    bench.time_ns = now_monotonic_ns();
    push_exit(&bench, GHOST, GHOST + 1);
    bench_settle(&bench);
    CHECK(process_find(&stream->processes, GHOST)->has_ended);
    CHECK_COUNT(collect_sum(bench_end(&bench), NULL), 30);
    bench_finish(&bench);
}

static bool is_gone(struct bench *bench) {
    return collect_has_ended(&bench->collected);
}

/* Samples after an exec are not of the program that was captured; those after an exit are. */
static void check_end(void (*push)(struct bench *bench), bool is_exec) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, one(&bench));
    load(&bench);
    push_samples(&bench, bench.child, 20);
    push(&bench);
    push_samples(&bench, bench.child, 20);
    bench_wait(&bench, is_gone);
    CHECK_INT(bench.collected.profile_count, ==, 1);
    CHECK(bench.collected.metadata[0].target_gone);
    CHECK_INT(bench.collected.metadata[0].target_execed, ==, is_exec);
    const char *target = collect_comment(bench.collected.profiles[0], "target: ");
    CHECK(strstr(target, is_exec ? ", called exec during" : ", ended during the capture"));
    CHECK_COUNT(collect_sum(bench.collected.profiles[0], "root_of_stack"), is_exec ? 30 : 50);
    bench_finish(&bench);
}

static void push_last_exit(struct bench *bench) {
    push_exit(bench, bench->child, bench->child);
}

TEST(the_exit_of_the_process_ends_its_captures_with_what_they_have) {
    check_end(push_last_exit, false);
}

static void push_exec(struct bench *bench) {
    push_comm(bench, bench->child, "other", true);
}

TEST(an_exec_of_the_process_ends_its_captures_with_what_they_have) {
    check_end(push_exec, true);
}

static bool has_read_maps(struct bench *bench) {
    struct host_stream *stream = bench_target(bench)->host->stream;
    return process_find(&stream->processes, bench->child)->losses_seen == stream->losses;
}

TEST(lost_and_invalid_records_are_counted_and_the_maps_are_read_again) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, one(&bench));
    load(&bench);
    struct host_stream *stream = bench_target(&bench)->host->stream;
    uint64_t serial = process_find(&stream->processes, bench.child)->map->serial;
    push_record(&bench, HOST_LOST, 0, 0)->lost = 7;
    push_samples(&bench, bench.child, 10);
    fake.invalid = 3;
    bench_settle(&bench);
    bench_wait(&bench, has_read_maps);
    CHECK_INT(process_find(&stream->processes, bench.child)->map->serial, >, serial);
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_COUNT(collect_sum(profile, "root_of_stack"), 20);
    CHECK_STR(collect_comment(profile, "dropped:"), "dropped: ring_full 7, corrupt 3");
    bench_finish(&bench);
}

TEST(an_ordinary_user_gets_rings_of_his_process_and_a_note_that_says_why) {
    struct bench bench;
    bench_init(&bench);
    fake.refuses_all = true;
    bench_begin(&bench, one(&bench));
    CHECK_INT(fake.options.pid_count, ==, 1);
    CHECK(!fake.options.has_kernel);
    push_samples(&bench, bench.child, 20);
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_COUNT(collect_sum(profile, "root_of_stack"), 20);
    CHECK_STR(collect_comment(profile, "clock:"), "clock: perf-task");
    CHECK(strstr(collect_comment(profile, "clock note:"), "run sonded as root"));
    bench_finish(&bench);
}

TEST(a_capture_that_the_kernel_refuses_ends_with_what_it_says) {
    struct bench bench;
    bench_init(&bench);
    fake.refuses_all = fake.refuses_processes = true;
    bench_begin(&bench, one(&bench));
    CHECK_INT(bench.collected.err, ==, SONDE_PERMISSION_DENIED);
    CHECK(strstr(bench.collected.diag.text, "run sonded as root"));
    CHECK_INT(bench.collected.profile_count, ==, 0);
    bench_finish(&bench);
}

/* A process that uses 200 ms of CPU time. */
static pid_t start_busy(void) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct timespec used = {0};
    while (used.tv_nsec < 200 * (long)MS)
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    for (;;)
        pause();
}

static pid_t busy;

static bool has_used_time(struct bench *bench) {
    return process_cpu_ns(busy) >= 200 * MS;
}

TEST(without_rights_cpu_time_that_has_no_sample_is_in_the_kernel) {
    struct bench bench;
    bench_init(&bench);
    fake.refuses_all = true;
    busy = start_busy();
    uint64_t before_ns = process_cpu_ns(busy);
    bench_begin(&bench, (struct engine_selector){.pid = busy});
    uint64_t after_ns = process_cpu_ns(busy);
    push_samples(&bench, busy, 50);
    bench_wait(&bench, has_used_time);
    const struct sonde_profile *profile = bench_end(&bench);
    double end_ms = (double)process_cpu_ns(busy) / (double)MS, sum = collect_sum(profile, NULL);
    CHECK_INT(sum, <=, end_ms - (double)before_ns / (double)MS + 20);
    CHECK_INT(sum, >=, end_ms - (double)after_ns / (double)MS - 20);
    CHECK_COUNT(collect_sum(profile, "root_of_stack"), 50);
    CHECK_COUNT(collect_sum(profile, "[in the kernel]"), sum - 50);
    kill(busy, SIGKILL);
    waitpid(busy, NULL, 0);
    bench_finish(&bench);
}

static bool has_joined(struct bench *bench) {
    bool is_there = false;
    for (uint32_t i = 0; i < fake.added_count; i++) {
        CHECK_INT(fake.added[i], !=, bench->child); /* it was there at the start */
        is_there |= fake.added[i] == busy;
    }
    return is_there;
}

TEST(without_rights_a_process_that_joins_a_group_later_is_added) {
    struct bench bench;
    struct process_entry self;
    bench_init(&bench);
    CHECK(process_read(getpid(), &self));
    fake.refuses_all = true;
    bench_begin(&bench, (struct engine_selector){.name = self.name, .all = true});
    busy = start_busy();
    bench_target(&bench)->host->stream->looked_ns = 0; /* look at once */
    bench_wait(&bench, has_joined);
    kill(busy, SIGKILL);
    waitpid(busy, NULL, 0);
    (void)bench_end(&bench);
    bench_finish(&bench);
}

static struct collected second;

static bool has_second_ended(struct bench *bench) {
    return collect_has_ended(&second);
}

TEST(a_capture_that_ends_beside_another_one_counts_its_last_records) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, one(&bench));
    load(&bench);
    collect_init(&second);
    struct engine_cpu_spec spec = {
        .target = one(&bench), .frequency_hz = 500, .duration_ms = 100, .source = ENGINE_HOST};
    struct sonde_diag diag = {0};
    struct engine_capture *capture;
    CHECK_INT(engine_capture_cpu(bench.engine, &spec, &collect_events, &second, &capture, &diag),
              ==, SONDE_OK);
    bench.time_ns = now_monotonic_ns() + 2 * MS;
    int64_t first_ns = now_unix_ns() - (int64_t)now_monotonic_ns() + (int64_t)(bench.time_ns - MS);
    push_samples(&bench, bench.child, 200); /* beyond its end */
    bench_wait(&bench, has_second_ended);
    const struct engine_metadata *metadata = &second.metadata[0];
    double first_ms = ((double)first_ns - (double)metadata->start_unix_ns) / (double)MS;
    double length_ms = (double)(metadata->end_unix_ns - metadata->start_unix_ns) / (double)MS;
    double from_ms = first_ms > 0 ? first_ms : 0;
    double until_ms = first_ms + 200 < length_ms ? first_ms + 200 : length_ms;
    CHECK_NEAR(collect_sum(second.profiles[0], NULL), (until_ms - from_ms) / 2, 3);
    CHECK_COUNT(collect_sum(bench_end(&bench), NULL), 210);
    engine_capture_release(capture);
    collect_finish(&second);
    bench_finish(&bench);
}

#define FIRST (2 * HOST_FIRST_STACK) /* at 1,000 Hz */

static bool has_longer_copies(struct bench *bench) {
    return bench_target(bench)->host->stream->stack_bytes > FIRST;
}

TEST(processes_beyond_the_limit_are_counted) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    load(&bench);
    bench.step_ns = 1000;
    for (pid_t i = 0; i < (pid_t)HOST_MAX_PROCESSES + 10; i++)
        push_fork(&bench, bench.child, GHOST + i, GHOST + i);
    push_samples(&bench, GHOST + (pid_t)HOST_MAX_PROCESSES + 5, 3);
    push_exit(&bench, GHOST, GHOST); /* makes room */
    push_fork(&bench, bench.child, GHOST - 1, GHOST - 1);
    bench.step_ns = MS;
    push_samples(&bench, GHOST - 1, 20);
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_STR(collect_comment(profile, "dropped:"), "dropped: too_many_processes 3");
    CHECK_COUNT(collect_sum(profile, "root_of_stack"), 30);
    bench_finish(&bench);
}

TEST(mappings_beyond_the_limit_are_reported) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    load(&bench);
    push_fork(&bench, bench.child, GHOST, GHOST);
    bench.step_ns = 1000;
    for (uint64_t i = 0; i < SPACE_MAX_MAPPINGS + 100; i++) {
        struct host_record *record = push_record(&bench, HOST_MMAP, GHOST, GHOST);
        record->mmap = (struct host_mmap){
            .start = (1 + i) << 16, .end = ((1 + i) << 16) + 4096, .path = "//anon"};
    }
    bench.step_ns = MS;
    push_samples(&bench, GHOST, 20);
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK(strstr(collect_comment(profile, "unnamed code:"), "mappings beyond the limit of 8192"));
    CHECK_COUNT(collect_sum(profile, "root_of_stack"), 30);
    bench_finish(&bench);
}

/* Occupies all builders. */
struct blocker {
    struct job job;
    pthread_mutex_t *gate;
};

static void wait_at_gate(struct job *base) {
    struct blocker *blocker = container_of(base, struct blocker, job);
    pthread_mutex_lock(blocker->gate);
    pthread_mutex_unlock(blocker->gate);
}

static void after_gate(struct engine *engine, struct job *base) {
    free(container_of(base, struct blocker, job));
}

static void block_builders(struct bench *bench, pthread_mutex_t *gate) {
    pthread_mutex_lock(gate);
    for (int i = 0; i < 2; i++) {
        struct blocker *blocker = calloc(1, sizeof *blocker);
        blocker->gate = gate;
        blocker->job.perform = wait_at_gate;
        blocker->job.complete = after_gate;
        engine_start_job(bench->engine, bench->engine->builders, &blocker->job);
    }
}

TEST(samples_wait_for_maps_and_tables_in_bounded_memory) {
    enum { COUNT = 4500 };
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    struct bench bench;
    bench_init(&bench);
    bench.step_ns = MS / 50;
    bench_begin(&bench, one(&bench));
    block_builders(&bench, &gate);
    push_samples(&bench, bench.child, COUNT);
    bench_settle(&bench);
    const struct park *park = &bench_target(&bench)->host->stream->park;
    CHECK_INT(park->bytes, <=, HOST_MAX_PARKED);
    CHECK_INT(park->bytes, >, HOST_MAX_PARKED - 2 * STACK_BYTES);
    pthread_mutex_unlock(&gate);
    const struct sonde_profile *profile = bench_end(&bench);
    int64_t late = collect_sum(profile, "[unwind table not loaded yet]");
    CHECK_COUNT(collect_sum(profile, NULL), COUNT / 50);
    CHECK_COUNT(collect_sum(profile, "root_of_stack") + late, COUNT / 50);
    CHECK_INT(late, >, 5);
    CHECK_INT(late, <, 20);
    bench_finish(&bench);
}

/* Those that are left after the copies have grown are too few for a second time. */
TEST(copies_grow_when_walks_run_off_them) {
    enum { CUT = COPY_FEW_WALKS / 2 };
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, one(&bench));
    CHECK_INT(fake.options.stack_bytes, ==, FIRST);
    /* Pages that were not resident: longer copies do not help. */
    push_shorts(&bench, COPY_MIN_WALKS, FIRST);
    bench_settle(&bench);
    CHECK(!has_longer_copies(&bench));
    bench.time_ns = now_monotonic_ns();
    push_shorts(&bench, COPY_MIN_WALKS, FIRST);
    push_shorts(&bench, CUT, 16);
    bench_wait(&bench, has_longer_copies);
    CHECK_INT(fake.open_sets, ==, 1);
    CHECK_INT(fake.options.stack_bytes, ==, 2 * FIRST);
    const struct sonde_profile *profile = bench_end(&bench);
    CHECK_INT(collect_sum(profile, "[stack copy too short]"), >, CUT - 2);
    bench_finish(&bench);
}
