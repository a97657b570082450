/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/sampling/sampled_threads.h"

#include "tests/unit/check.h"

TEST(sampled_threads_are_found_by_tid_and_run_out) {
    uint64_t mask;
    CHECK_INT(sampled_threads_open(), ==, 0);
    sampled_threads_lock(&mask);
    CHECK(!handler_find_thread(4242));
    CHECK(!sampled_threads_add(HANDLER_TIDS)); /* beyond the largest tid */
    uint32_t used = 0;
    while (sampled_threads_add(used + 1))
        used++;
    CHECK_INT(used, ==, SAMPLED_THREADS_MAX);
    CHECK_INT(sampled_threads_count(), ==, SAMPLED_THREADS_MAX);
    struct sampled_thread *thread = handler_find_thread(4242);
    CHECK(thread && thread->tid == 4242);
    uint32_t incarnation = thread->incarnation;
    sampled_threads_remove(thread);
    CHECK(!handler_find_thread(4242));
    thread = sampled_threads_add(777777);
    CHECK(thread && thread->incarnation != incarnation);
    sampled_threads_remove(thread);
    for (uint32_t tid = 1; tid <= used; tid++)
        if (handler_find_thread(tid))
            sampled_threads_remove(handler_find_thread(tid));
    CHECK_INT(sampled_threads_count(), ==, 0);
    sampled_threads_trim();
    sampled_threads_unlock(&mask);
}

TEST(a_preempted_handler_counts_as_the_mean_of_the_others) {
    struct handler_cost since = {1000, 10, 5}, now = {1000 + 80 * 500, 10 + 100, 5 + 20};
    CHECK_INT(handler_cost_ns(&since, &now), ==, 100 * 500);
    now = (struct handler_cost){1000, 10 + 3, 5 + 3};
    CHECK_INT(handler_cost_ns(&since, &now), ==, 3 * HANDLER_PREEMPTED_NS);
    CHECK_INT(handler_cost_ns(&since, &since), ==, 0);
}
