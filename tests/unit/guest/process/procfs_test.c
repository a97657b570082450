/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/process/procfs.h"

#include "tests/unit/check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

TEST(fields_of_the_stat_file_are_found) {
    CHECK_INT(procfs_stat_field(4), ==, getppid());
    CHECK_INT(procfs_stat_field(22), >, 0);
    CHECK_INT(procfs_stat_field(400), ==, 0);
}

TEST(a_process_name_with_parentheses_does_not_shift_the_fields) {
    char name[16];
    prctl(PR_GET_NAME, name);
    prctl(PR_SET_NAME, "a) R 1 2 (b");
    CHECK_INT(procfs_stat_field(4), ==, getppid());
    prctl(PR_SET_NAME, name);
}

TEST(files_are_cut_and_missing_ones_are_errors) {
    char text[5];
    CHECK_INT(procfs_read_file("/proc/self/maps", text, sizeof text), ==, 4);
    CHECK_INT(strlen(text), ==, 4);
    CHECK_INT(procfs_read_file("/nonexistent", text, sizeof text), ==, -ENOENT);
}

TEST(a_thread_is_named_and_an_ended_one_is_not) {
    char name[16], own[16] = "";
    prctl(PR_GET_NAME, own);
    procfs_task_name((uint32_t)gettid(), name);
    CHECK_STR(name, own);
    procfs_task_name(4u << 20, name);
    for (int i = 0; i < 16; i++)
        CHECK_INT(name[i], ==, 0);
}

static void note_own(uint32_t number, void *context) {
    if (number == (uint32_t)gettid())
        *(int *)context += 1;
}

TEST(each_number_of_a_directory_is_visited_once) {
    int seen = 0;
    CHECK(procfs_each_number("/proc/self/task", note_own, &seen));
    CHECK_INT(seen, ==, 1);
    CHECK(!procfs_each_number("/nonexistent", note_own, &seen));
}

static int pipe_ends[2];

static void *read_pipe(void *tid) {
    char byte;
    __atomic_store_n((uint32_t *)tid, (uint32_t)gettid(), __ATOMIC_RELEASE);
    return read(pipe_ends[0], &byte, 1) == 1 ? tid : NULL;
}

/* The kernel may refuse the question (UNKNOWN), but must not call a waiting thread running for
 * ever. */
TEST(a_thread_that_waits_is_blocked) {
    uint32_t tid = 0;
    uint64_t pc = 0, sp = 0;
    pthread_t thread;
    CHECK_INT(pipe(pipe_ends), ==, 0);
    CHECK_INT(pthread_create(&thread, NULL, read_pipe, &tid), ==, 0);
    enum procfs_state state = PROCFS_RUNNING;
    for (int i = 0; i < 10000 && state == PROCFS_RUNNING; i++) {
        uint32_t other = __atomic_load_n(&tid, __ATOMIC_ACQUIRE);
        if (other)
            state = procfs_task_state(other, &pc, &sp);
        usleep(1000);
    }
    CHECK(state != PROCFS_RUNNING);
    if (state == PROCFS_BLOCKED) {
        CHECK_INT(pc, !=, 0);
        CHECK_INT(sp, !=, 0);
    }
    CHECK_INT(write(pipe_ends[1], "x", 1), ==, 1);
    pthread_join(thread, NULL);
    CHECK_INT(procfs_task_state(tid, &pc, &sp), ==, PROCFS_UNKNOWN);
}

TEST(blocked_signals_are_read_as_a_mask) {
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, &old);
    uint64_t mask = procfs_task_mask((uint32_t)gettid(), "SigBlk:");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    CHECK_INT(mask >> (SIGUSR2 - 1) & 1, ==, 1);
    CHECK_INT(procfs_task_mask((uint32_t)gettid(), "NoSuchLine:"), ==, 0);
}
