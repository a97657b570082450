/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/host/rings/child.h"

#include "tests/unit/check.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIFE_S 120

struct child child_start(void (*body)(void)) {
    int fds[2];
    CHECK(pipe(fds) == 0);
    struct child child = {fork(), fds[1]};
    CHECK(child.pid >= 0);
    if (child.pid == 0) {
        char byte;
        close(fds[1]);
        alarm(LIFE_S);
        if (read(fds[0], &byte, 1) == 1)
            body();
        _exit(0);
    }
    close(fds[0]);
    return child;
}

void child_go(struct child child) {
    CHECK(write(child.go, "x", 1) == 1);
}

uint64_t child_cpu_ns(pid_t pid) {
    clockid_t clock;
    struct timespec now = {0};
    if (clock_getcpuclockid(pid, &clock) == 0)
        clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void child_freeze(pid_t pid) {
    int status = 0;
    kill(pid, SIGSTOP);
    CHECK(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
}

void child_end(struct child child) {
    kill(child.pid, SIGKILL);
    waitpid(child.pid, NULL, 0);
    close(child.go);
}

void child_wait(struct child child) {
    int status;
    CHECK(waitpid(child.pid, &status, 0) == child.pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    close(child.go);
}
