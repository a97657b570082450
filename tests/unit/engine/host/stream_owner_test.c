/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes whose ids were never read, for a caller who may only see one user's; and the name of a
 * process with its children. */
#include "tests/unit/engine/host/fake_rings.h"

#include <stdio.h>
#include <unistd.h>

static double count_unknown_child(bool has_own_stream) {
    struct bench bench;
    bench_init(&bench);
    fake.refuses_all = has_own_stream;
    bench_begin(&bench, (struct engine_selector){.pid = bench.child, .all = true});
    bench_target(&bench)->host->has_owner = true;
    bench_target(&bench)->host->owner = geteuid();
    bench_load(&bench);
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
    bench_begin(&bench, (struct engine_selector){.pid = bench.child, .all = true});
    push_fork(&bench, bench.child, GHOST, GHOST);
    push_comm(&bench, GHOST, "cc1", true);
    push_comm(&bench, bench.child, "make", true);
    char wanted[64];
    snprintf(wanted, sizeof wanted, "target: @all:%d (make)", (int)bench.child);
    CHECK_STR(collect_comment(bench_end(&bench), "target: "), wanted);
    bench_finish(&bench);
}
