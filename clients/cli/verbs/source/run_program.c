/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/source/run_program.h"

#include "api/base/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static pid_t start(const char *const *argv, int out) {
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (posix_spawnp(&pid, argv[0], &actions, NULL, (char **)(uintptr_t)argv, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

/* True when the program has closed its output; what does not fit is read and dropped. */
static bool read_all(int in, unsigned limit_s, char *text, size_t size) {
    size_t len = 0;
    int64_t end_ms = clock_ms(CLOCK_MONOTONIC) + limit_s * 1000ll;
    while (clock_ms(CLOCK_MONOTONIC) < end_ms) {
        char bytes[512];
        struct pollfd readable = {.fd = in, .events = POLLIN};
        ssize_t got = poll(&readable, 1, 1000) > 0 ? read(in, bytes, sizeof bytes) : 1;
        if (got <= 0)
            return got == 0;
        for (ssize_t i = 0; readable.revents && i < got && len + 1 < size; i++)
            text[len++] = bytes[i];
        text[len] = 0;
    }
    return false;
}

bool run_program(const char *const *argv, unsigned limit_s, char *text, size_t size) {
    int ends[2], status = -1;
    text[0] = 0;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t pid = start(argv, ends[1]);
    close(ends[1]);
    if (pid > 0) {
        if (!read_all(ends[0], limit_s, text, size))
            kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    close(ends[0]);
    return status == 0;
}
