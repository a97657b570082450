/* SPDX-License-Identifier: Apache-2.0 */
#include "service/locks.h"
#include "tests/unit/check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(locks_taken_in_rising_rank_are_fine_in_any_order_of_dropping) {
    struct lock low = {0}, high = {0};
    lock_init(&low, LOCK_TARGETS);
    lock_init(&high, LOCK_MESSAGES);
    lock_take(&low);
    lock_take(&high);
    lock_drop(&low);
    lock_drop(&high);
    lock_take(&low);
    lock_drop(&low);
    lock_finish(&low);
    lock_finish(&high);
    lock_finish(&high); /* finish accepts a lock that was never initialised, or is finished */
}

#ifndef NDEBUG
static int signal_of_wrong_order(enum lock_rank first, enum lock_rank second) {
    pid_t pid = fork();
    if (pid == 0) {
        struct lock a = {0}, b = {0};
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        signal(SIGABRT, SIG_DFL);
        lock_init(&a, first);
        lock_init(&b, second);
        lock_take(&a);
        lock_take(&b);
        _exit(0);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

TEST(falling_or_equal_rank_ends_a_debug_build) {
    CHECK_INT(signal_of_wrong_order(LOCK_MESSAGES, LOCK_TARGETS), ==, SIGABRT);
    CHECK_INT(signal_of_wrong_order(LOCK_TARGETS, LOCK_TARGETS), ==, SIGABRT);
    CHECK_INT(signal_of_wrong_order(LOCK_TARGETS, LOCK_MESSAGES), ==, 0);
}
#endif
