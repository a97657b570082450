/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/held.h"

#include "tests/unit/check.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SOME 4096u /* rows */

TEST(reasons_are_kept_for_each_thread) {
    held_after_fork(1);
    held_add(7, HOLD_STACK);
    held_add(7, HOLD_FILTER);
    held_add(8, FILTER_IS_HARMLESS);
    CHECK_INT(held_reasons(7), ==, HOLD_STACK | HOLD_FILTER);
    CHECK_INT(held_reasons(8), ==, 0);
    CHECK(held_has_harmless_filter(8) && !held_has_harmless_filter(7));
    CHECK_INT(held_count(HOLD_STACK), ==, 1);
    held_remove(7, HOLD_STACK);
    CHECK_INT(held_reasons(7), ==, HOLD_FILTER);
    held_remove(7, HOLD_FILTER);
    held_remove(7, HOLD_FILTER);
    CHECK_INT(held_reasons(7), ==, 0);
    CHECK_INT(held_count(HOLD_FILTER), ==, 0);
}

TEST(a_full_table_holds_every_thread) {
    held_after_fork(1);
    for (uint32_t tid = 1; tid <= SOME; tid++)
        held_add(tid, HOLD_FILTER);
    CHECK_INT(held_reasons(SOME + 1), ==, 0);
    held_add(SOME + 1, HOLD_STACK);
    CHECK_INT(held_reasons(SOME + 1), ==, HOLD_STACK);
    CHECK_INT(held_reasons(SOME + 2), ==, HOLD_STACK);
    CHECK_INT(held_reasons(3), ==, HOLD_STACK | HOLD_FILTER);
    held_after_fork(1);
    CHECK_INT(held_reasons(SOME + 2), ==, 0);
}

static void *say_tid(void *tid) {
    *(uint32_t *)tid = (uint32_t)syscall(SYS_gettid);
    return NULL;
}

TEST(threads_that_have_ended_are_forgotten) {
    uint32_t ended, own = (uint32_t)syscall(SYS_gettid);
    pthread_t thread;
    CHECK_INT(pthread_create(&thread, NULL, say_tid, &ended), ==, 0);
    CHECK_INT(pthread_join(thread, NULL), ==, 0);
    while (syscall(SYS_tgkill, getpid(), ended, 0) == 0)
        usleep(1000);
    held_after_fork(1);
    held_add(ended, HOLD_STACK);
    held_add(own, HOLD_STACK);
    held_forget_ended((uint32_t)getpid());
    CHECK_INT(held_reasons(ended), ==, 0);
    CHECK_INT(held_reasons(own), ==, HOLD_STACK);
}

TEST(the_child_of_a_fork_keeps_its_own_reasons) {
    held_after_fork(1);
    held_add(99, HOLD_STACK);
    held_own = HOLD_STACK;
    held_after_fork(5);
    held_own = 0;
    CHECK_INT(held_reasons(99), ==, 0);
    CHECK_INT(held_reasons(5), ==, HOLD_STACK);
}

TEST(a_filtered_thread_makes_no_calls) {
    CHECK(!held_from_calls());
    held_own = HOLD_STACK | FILTER_IS_HARMLESS;
    CHECK(!held_from_calls());
    held_own = HOLD_FILTER;
    CHECK(held_from_calls());
    held_own = 0;
    atomic_store(&held_process, true);
    CHECK(held_from_calls());
    atomic_store(&held_process, false);
}
