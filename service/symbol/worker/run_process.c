/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the store's worker program and waits for it. The store records the pids of running workers,
 * so that it can kill them when it ends. */
#include "service/symbol/store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGUMENTS 8
#define FIRST_FD      3

/* Returns the pid, or -1. The worker gets an empty environment, hence no LD_PRELOAD, no proxies and
 * no DEBUGINFOD_URLS. */
static pid_t spawn(const char *program, const char *const *arguments, const int *fds, int fd_end) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char *argv[MAX_ARGUMENTS + 2] = {(char *)program};
    for (size_t i = 0; i < MAX_ARGUMENTS && arguments[i]; i++)
        argv[i + 1] = (char *)arguments[i];
    char *environment[] = {(char *)"LC_ALL=C", NULL};
    pid_t pid = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    for (int i = FIRST_FD; i < fd_end; i++)
        posix_spawn_file_actions_adddup2(&actions, fds[i], i);
    posix_spawn_file_actions_addclosefrom_np(&actions, fd_end);
    posix_spawnattr_init(&attributes);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (posix_spawn(&pid, program, &actions, &attributes, argv, environment) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return pid;
}

/* Waits until the worker ends, and kills it at the timeout; then it returns true. The worker is not
 * reaped yet, so that its pid cannot be reused while store->workers has it. */
static bool wait_for_end(pid_t pid, int timeout_ms) {
    struct pollfd ended = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    bool was_late = false;
    if (ended.fd >= 0) {
        int ready;
        do
            ready = poll(&ended, 1, timeout_ms);
        while (ready < 0 && errno == EINTR);
        close(ended.fd);
        was_late = ready == 0;
        if (was_late)
            kill(pid, SIGKILL);
    }
    siginfo_t info;
    while (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        continue;
    return was_late;
}

/* Waits for a free slot, under the store's lock. NULL if the store is ending. */
static pid_t *wait_for_slot(struct symbol_store *store) {
    while (!store->stopping) {
        for (size_t i = 0; i < SYMBOL_WORKERS; i++)
            if (store->workers[i] == 0)
                return &store->workers[i];
        lock_wait(&store->lock, &store->worker_ended);
    }
    return NULL;
}

static uint64_t milliseconds(const struct rusage *usage) {
    return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000 +
           (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1000;
}

static void close_copies(int *copies, int fd_end) {
    for (int i = FIRST_FD; copies && i < fd_end; i++)
        if (copies[i] >= 0)
            close(copies[i]);
    free(copies);
}

/* Copies descriptors to numbers above all that the process gets, so that moving one to its number
 * there does not overwrite another. Returns NULL if one cannot be copied. */
static int *copy_fds(const int *fds, int fd_end) {
    int *copies = calloc((size_t)fd_end, sizeof *copies),
        none = open("/dev/null", O_RDWR | O_CLOEXEC);
    bool whole = copies != NULL;
    for (int i = FIRST_FD; copies && i < fd_end; i++) {
        copies[i] = fcntl(fds[i] < 0 ? none : fds[i], F_DUPFD_CLOEXEC, fd_end);
        whole = whole && copies[i] >= 0;
    }
    if (none >= 0)
        close(none);
    if (whole)
        return copies;
    close_copies(copies, fd_end);
    return NULL;
}

/* The pid is recorded under the lock, so that symbol_store_end cannot miss the process. */
struct symbol_process_run symbol_process_run(struct symbol_store *store,
                                             const char *const *arguments, const int *fds,
                                             int fd_end, int timeout_ms) {
    struct rusage usage = {0};
    struct symbol_process_run run = {.end = SYMBOL_PROCESS_STORE_ENDS};
    int *copies = copy_fds(fds, fd_end);
    lock_take(&store->lock);
    pid_t *slot = wait_for_slot(store);
    pid_t pid = slot && copies ? spawn(store->worker, arguments, copies, fd_end) : -1;
    if (pid > 0)
        *slot = pid;
    lock_drop(&store->lock);
    close_copies(copies, fd_end);
    if (pid <= 0) {
        run.end = slot ? SYMBOL_PROCESS_NOT_STARTED : SYMBOL_PROCESS_STORE_ENDS;
        return run;
    }
    bool was_late = wait_for_end(pid, timeout_ms);
    lock_take(&store->lock);
    bool stopping = store->stopping;
    *slot = 0;
    pthread_cond_signal(&store->worker_ended);
    lock_drop(&store->lock);
    while (wait4(pid, &run.status, 0, &usage) < 0 && errno == EINTR)
        continue;
    run.cpu_ms = milliseconds(&usage);
    run.end = stopping   ? SYMBOL_PROCESS_STORE_ENDS
              : was_late ? SYMBOL_PROCESS_LATE
                         : SYMBOL_PROCESS_ENDED;
    return run;
}

void symbol_store_end(struct symbol_store *store) {
    lock_take(&store->lock);
    store->stopping = true;
    for (size_t i = 0; i < SYMBOL_WORKERS; i++)
        if (store->workers[i] > 0)
            kill(store->workers[i], SIGKILL);
    pthread_cond_broadcast(&store->wanted);
    pthread_cond_broadcast(&store->worker_ended);
    lock_drop(&store->lock);
}
