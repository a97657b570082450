/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose a sample is: of processes whose ids were never read, for a caller who may only see one
 * user's; after an exit; of whose time, after the rate has changed; and the name of a process with
 * its children. */
#include "tests/unit/engine/host/fake_rings.h"

#include "service/host/processes/process_list.h"

#include <stdio.h>
#include <unistd.h>

static bool has_loaded(struct bench *bench) {
    return fake.queued == 0 && !bench_target(bench)->host->stream->park.first;
}

/* Ten samples, after which the maps and the tables of the child are known. */
static void load(struct bench *bench) {
    push_samples(bench, bench->child, 10);
    bench_settle(bench);
    bench_wait(bench, has_loaded);
    bench->time_ns = now_monotonic_ns();
}

static struct engine_selector tree(const struct bench *bench) {
    return (struct engine_selector){.pid = bench->child, .all = true};
}

static double count_unknown_child(bool has_own_stream) {
    struct bench bench;
    bench_init(&bench);
    fake.refuses_all = has_own_stream;
    bench_begin(&bench, tree(&bench));
    bench_target(&bench)->host->has_owner = true;
    bench_target(&bench)->host->owner = geteuid();
    load(&bench);
    push_fork(&bench, bench.child, GHOST, GHOST);
    push_samples(&bench, GHOST, 20);
    double count = collect_sum(bench_end(&bench), "root_of_stack");
    bench_finish(&bench);
    return count;
}

TEST(a_child_of_unknown_ids_is_not_shown_if_it_may_be_another_users) {
    CHECK_NEAR(count_unknown_child(false), 10, 1);
    CHECK_NEAR(count_unknown_child(true), 30, 1);
}

/* `sonde record -- make` forks a child, which then runs make. */
TEST(a_process_and_its_children_bear_the_name_of_the_program_that_it_runs) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    push_fork(&bench, bench.child, GHOST, GHOST);
    push_comm(&bench, GHOST, "cc1", true);
    push_comm(&bench, bench.child, "make", true);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "target: @all:%d (make)", (int)bench.child);
    CHECK_STR(collect_comment(bench_end(&bench), "target: "), wanted);
    bench_finish(&bench);
}

TEST(a_reused_pid_is_not_credited_to_the_process_that_had_it) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    load(&bench);
    push_fork(&bench, bench.child, GHOST, GHOST);
    push_samples(&bench, GHOST, 20);
    push_exit(&bench, GHOST, GHOST);
    push_fork(&bench, GHOST + 1, GHOST, GHOST); /* something else has started it */
    push_samples(&bench, GHOST, 30);
    CHECK_NEAR(collect_sum(bench_end(&bench), NULL), 30, 1);
    bench_finish(&bench);
}

/* The kernel frees its memory after it has recorded the exit. */
TEST(the_time_of_an_exit_is_that_of_the_process_that_ends) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    load(&bench);
    push_fork(&bench, bench.child, GHOST, GHOST);
    push_comm(&bench, GHOST, "leaver", true);
    push_exit(&bench, GHOST, GHOST);
    push_samples(&bench, GHOST, 20);
    for (pid_t i = 1; i <= (pid_t)HOST_MAX_ENDED; i++) {
        push_fork(&bench, bench.child, GHOST + i, GHOST + i);
        push_exit(&bench, GHOST + i, GHOST + i);
    }
    push_samples(&bench, GHOST, 30); /* long ago: nobody knows whose they are */
    CHECK_NEAR(collect_sum(bench_end(&bench), "leaver"), 20, 1);
    bench_finish(&bench);
}

/* Nothing but its fork was recorded of it, and its parent was not seen before. */
TEST(a_child_that_has_ended_is_called_as_its_parent) {
    struct bench bench;
    struct process_entry self;
    bench_init(&bench);
    CHECK(process_read(getpid(), &self));
    bench_begin(&bench, (struct engine_selector){.all = true});
    push_fork(&bench, getpid(), GHOST, GHOST);
    push_samples(&bench, GHOST, 20);
    push_exit(&bench, GHOST, GHOST);
    CHECK_NEAR(collect_sum(bench_end(&bench), self.name), 20, 1);
    bench_finish(&bench);
}

TEST(a_full_table_forgets_a_parent_that_has_ended_only_after_its_last_child) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, (struct engine_selector){.all = true});
    load(&bench);
    const struct process_table *table = &bench_target(&bench)->host->stream->processes;
    push_fork(&bench, bench.child, GHOST, GHOST);
    push_comm(&bench, GHOST, "leaver", true);
    push_exit(&bench, GHOST, GHOST);
    bench_settle(&bench);
    bench.step_ns = 1000;
    for (pid_t i = 1, end = (pid_t)(HOST_MAX_PROCESSES - table->count); i <= end; i++)
        push_fork(&bench, bench.child, GHOST + i, GHOST + i);
    bench_settle(&bench);
    CHECK_INT(table->count, ==, HOST_MAX_PROCESSES);
    push_fork(&bench, GHOST, GHOST - 1, GHOST - 1); /* recorded late */
    bench_settle(&bench);
    CHECK(!process_find(table, GHOST));
    CHECK_STR(process_find(table, GHOST - 1)->name, "leaver");
    (void)bench_end(&bench);
    bench_finish(&bench);
}

/* The recording had few samples before, so this one also stands for a part of that time. */
TEST(the_first_sample_at_a_new_rate_counts_no_time_before_the_capture) {
    struct bench bench;
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    load(&bench);
    bench.time_ns += 100 * MS;
    push_samples(&bench, bench.child, 1);
    struct host_record *record = push_record(&bench, HOST_SAMPLE, bench.child, bench.child);
    record->sample = (struct host_sample){
        .weight_ns = 50 * MS, .renewed_weight_ns = 3 * MS, .renewed_ns = 1, .abi = HOST_ABI_64};
    CHECK_NEAR(collect_sum(bench_end(&bench), NULL), 14, 1);
    bench_finish(&bench);
}

static bool has_faster_clocks(struct bench *bench) {
    return fake.period_ns == MS / 4;
}

/* As when history records the machine at 19 Hz. */
TEST(a_capture_of_another_target_raises_the_rate_of_the_stream_that_they_share) {
    struct bench bench;
    struct collected second;
    struct engine_capture *capture;
    struct sonde_diag diag = {0};
    bench_init(&bench);
    bench_begin(&bench, tree(&bench));
    collect_init(&second);
    const struct engine_cpu_spec spec = {
        .target = {.pid = bench.child}, .frequency_hz = 4000, .source = ENGINE_HOST};
    CHECK_INT(engine_capture_cpu(bench.engine, &spec, &collect_events, &second, &capture, &diag),
              ==, SONDE_OK);
    bench_wait(&bench, has_faster_clocks);
    CHECK_INT(fake.opened, ==, 1);
    engine_capture_cancel(capture);
    engine_capture_release(capture);
    (void)bench_end(&bench);
    bench_finish(&bench);
    collect_finish(&second);
}
