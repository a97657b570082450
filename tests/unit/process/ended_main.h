/* SPDX-License-Identifier: Apache-2.0
 *
 * A process whose main thread has ended and whose other thread waits to be killed. */
#ifndef SONDE_TESTS_UNIT_PROCESS_ENDED_MAIN_H
#define SONDE_TESTS_UNIT_PROCESS_ENDED_MAIN_H

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void *ended_main_wait(void *unused) {
    while (pause())
        continue;
    return unused;
}

static inline void ended_main_child(void) {
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pthread_create(&thread, NULL, ended_main_wait, NULL) != 0)
        _exit(1);
    syscall(SYS_exit, 0);
}

static inline char ended_main_state(pid_t pid) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] ? name_end[2] : 0;
}

/* The pid, once the main thread has ended. It has this process's memory. */
static inline pid_t ended_main_start(void) {
    pid_t pid = fork();
    if (pid == 0)
        ended_main_child();
    while (pid > 0 && ended_main_state(pid) != 'Z')
        usleep(1000);
    return pid;
}

static inline void ended_main_finish(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

#endif
