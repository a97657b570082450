/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/cli/verbs/annotate/fetch_source.h"

#include "api/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOW_MS 5000

static pid_t start(const char *build_id, const char *name, int out) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    int none = open("/dev/null", O_RDWR);
    if (none >= 0 && dup2(none, STDIN_FILENO) >= 0 && dup2(none, STDERR_FILENO) >= 0 &&
        dup2(out, STDOUT_FILENO) >= 0)
        execlp("debuginfod-find", "debuginfod-find", "source", build_id, name, (char *)NULL);
    _exit(127);
}

/* The tool prints the path. */
static bool read_line(int fd, char path[PATH_MAX]) {
    size_t len = 0;
    ssize_t got;
    while (len + 1 < PATH_MAX &&
           ((got = read(fd, path + len, PATH_MAX - 1 - len)) > 0 || (got < 0 && errno == EINTR)))
        len += got > 0 ? (size_t)got : 0;
    path[len] = 0;
    path[strcspn(path, "\n")] = 0;
    return path[0] == '/';
}

bool fetch_source(const char *build_id, const char *name, char path[PATH_MAX], bool *is_slow) {
    const char *servers = getenv("DEBUGINFOD_URLS");
    int64_t began_ms = clock_ms(CLOCK_MONOTONIC);
    int ends[2], status = -1;
    *is_slow = false;
    if (!servers || !*servers || !*build_id || name[0] != '/' || pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t pid = start(build_id, name, ends[1]);
    close(ends[1]);
    bool found = pid > 0 && read_line(ends[0], path);
    close(ends[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    found = found && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    *is_slow = !found && clock_ms(CLOCK_MONOTONIC) - began_ms > SLOW_MS;
    return found;
}
