/* SPDX-License-Identifier: Apache-2.0
 *
 * Owners that locks claim to have, against real threads. */
#include "service/engine/host/locks/lock_owners.h"

#include "tests/unit/check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct lock_owners owners;

static void *find_itself(void *unused) {
    uint32_t tid = (uint32_t)syscall(SYS_gettid);
    return (void *)(uintptr_t)(lock_owners_find(&owners, getpid(), tid) == (pid_t)tid);
}

TEST(threads_of_the_process_are_found) {
    pthread_t thread;
    void *is_found;
    CHECK_INT(lock_owners_find(&owners, getpid(), (uint32_t)getpid()), ==, getpid());
    CHECK_INT(pthread_create(&thread, NULL, find_itself, NULL), ==, 0);
    CHECK_INT(pthread_join(thread, &is_found), ==, 0);
    CHECK(is_found);
}

TEST(other_numbers_are_nobody) {
    static const uint32_t numbers[] = {0, 1, 2, UINT32_MAX, INT32_MAX, 1u << 30};
    for (int repeated = 0; repeated < 2; repeated++)
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
            CHECK_INT(lock_owners_find(&owners, getpid(), numbers[i]), ==, 0);
    CHECK_INT(lock_owners_find(&owners, getpid(), (uint32_t)getppid()), ==, 0);
    CHECK_INT(lock_owners_find(&owners, INT32_MAX, 1), ==, 0);
}

/* A process that is number 1 of a namespace of its own. */
TEST(in_another_namespace_threads_are_found_by_their_number_there) {
    int to_child[2];
    if (geteuid() != 0)
        check_skip("only root makes a pid namespace");
    CHECK_INT(pipe(to_child), ==, 0);
    pid_t maker = fork();
    CHECK_INT(maker, >=, 0);
    if (maker == 0) {
        pid_t pid = unshare(CLONE_NEWPID) ? -1 : fork();
        if (pid == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            for (;;)
                pause();
        }
        _exit(write(to_child[1], &pid, sizeof pid) != sizeof pid || pause());
    }
    pid_t pid = 0;
    CHECK_INT(read(to_child[0], &pid, sizeof pid), ==, sizeof pid);
    if (pid > 0) {
        CHECK_INT(lock_owners_find(&owners, pid, 1), ==, pid);
        CHECK_INT(lock_owners_find(&owners, pid, (uint32_t)pid), ==, 0);
        CHECK_INT(lock_owners_find(&owners, pid, 2), ==, 0);
        kill(pid, SIGKILL);
    }
    kill(maker, SIGKILL);
    waitpid(maker, NULL, 0);
    close(to_child[0]);
    close(to_child[1]);
    if (pid < 0)
        check_skip("the kernel makes no pid namespace");
}
