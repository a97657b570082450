/* SPDX-License-Identifier: Apache-2.0 */
#include "api/os/exit_watchdog.h"

#include "tests/unit/check.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static void *wait_forever(void *context) {
    (void)context;
    for (;;)
        pause();
    return NULL;
}

/* Runs `hang` in a child and returns its exit status and what it wrote to stderr. */
static int run_child(void (*hang)(void), char *text, size_t size) {
    int errors[2], status = 0;
    size_t len = 0;
    ssize_t got;
    CHECK_INT(pipe(errors), ==, 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(errors[1], STDERR_FILENO);
        hang();
        _exit(0);
    }
    close(errors[1]);
    while ((got = read(errors[0], text + len, size - 1 - len)) > 0)
        len += (size_t)got;
    text[len] = 0;
    close(errors[0]);
    CHECK_INT(waitpid(child, &status, 0), ==, child);
    return status;
}

static void hang_in_a_join(void) {
    pthread_t thread;
    exit_watchdog_start("tested", "the first part", 1);
    exit_watchdog_start("again", "another part", 600); /* a second SIGTERM wins no time */
    exit_watchdog_step("a thread");
    if (pthread_create(&thread, NULL, wait_forever, NULL) == 0)
        pthread_join(thread, NULL);
}

TEST(a_process_that_does_not_stop_is_ended_with_a_line) {
    char text[256];
    int status = run_child(hang_in_a_join, text, sizeof text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    CHECK_STR(text, "tested: did not stop in time, exiting at once; still waiting for a thread\n");
}

static char lock_path[64];

/* A child that has inherited the descriptor stands for a process that cannot end: the lock stays
 * taken until somebody gives it up. */
static void hang_with_a_lock(void) {
    int lock = open(lock_path, O_RDWR | O_CLOEXEC);
    flock(lock, LOCK_EX);
    exit_watchdog_lock(lock);
    if (fork() == 0) {
        close(STDERR_FILENO);
        sleep(30);
        _exit(0);
    }
    exit_watchdog_start("tested", "a device", 1);
    wait_forever(NULL);
}

TEST(the_next_process_gets_the_locks_although_this_one_cannot_end) {
    char text[256];
    snprintf(lock_path, sizeof lock_path, "/tmp/watchdog-%d.lock", (int)getpid());
    int lock = open(lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    run_child(hang_with_a_lock, text, sizeof text);
    CHECK_INT(flock(lock, LOCK_EX | LOCK_NB), ==, 0);
    close(lock);
    unlink(lock_path);
}

static void hang_without_memory(void) {
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_AS, &none);
    exit_watchdog_start("tested", "memory", 1);
    wait_forever(NULL);
}

TEST(a_process_without_memory_is_ended) {
    char text[256];
    int status = run_child(hang_without_memory, text, sizeof text);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    CHECK(strstr(text, "waiting for memory\n") != NULL);
}

static void end_in_time(void) {
    exit_watchdog_start("tested", "nothing", 60);
}

TEST(a_process_that_stops_in_time_is_left_alone) {
    char text[256];
    CHECK_INT(run_child(end_in_time, text, sizeof text), ==, 0);
    CHECK_STR(text, "");
}
