/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/symbol/peers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double seconds(struct timeval time) {
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static double wall(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double peer_own_cpu(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

double peer_children_cpu(void) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

long peer_children_peak_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_CHILDREN, &usage);
    return usage.ru_maxrss;
}

struct peer_cost peer_run(const char *format, ...) {
    char command[4096];
    int status = 0;
    struct rusage usage;
    double before = wall();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    pid_t pid = fork();
    if (pid == 0) {
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || wait4(pid, &status, 0, &usage) != pid)
        return (struct peer_cost){.ran = false};
    return (struct peer_cost){.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime),
                              .wall_s = wall() - before,
                              .peak_kib = usage.ru_maxrss,
                              .ran = WIFEXITED(status) && WEXITSTATUS(status) == 0};
}
