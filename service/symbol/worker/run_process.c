/* SPDX-License-Identifier: Apache-2.0
 *
 * One run of a process that does for the store what is not done here: its descriptors, its start,
 * its end. The store knows the pids of all that run, so that it can end them with itself. */
#include "service/symbol/store.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS 8
#define FIRST_FD  3

/* The pid, or -1. Nothing of our environment goes over: no preloads, no proxies, no debuginfod. */
static pid_t spawn(const char *program, const char *const *arguments, const int *fds, int fd_end) {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    char *words[MAX_WORDS + 2] = {(char *)program};
    for (size_t i = 0; i < MAX_WORDS && arguments[i]; i++)
        words[i + 1] = (char *)arguments[i];
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
    if (posix_spawn(&pid, program, &actions, &attributes, words, environment) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return pid;
}

/* Waits for the worker's end, and ends it when its time is over: true then. It is not reaped here:
 * until then its pid can be nobody else's. */
static bool await(pid_t pid, int timeout_ms) {
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
    siginfo_t about;
    while (waitid(P_PID, (id_t)pid, &about, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        continue;
    return was_late;
}

/* Under the store's lock. NULL when the store ends. */
static pid_t *take_place(struct symbol_store *store) {
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

/* The pid is told under the lock, so that a store that ends can end the process too. */
struct symbol_run symbol_run(struct symbol_store *store, const char *const *arguments,
                             const int *fds, int fd_end, int timeout_ms) {
    struct rusage usage = {0};
    struct symbol_run run = {.end = SYMBOL_RUN_STORE_ENDS};
    lock_take(&store->lock);
    pid_t *place = take_place(store);
    pid_t pid = place ? spawn(store->worker, arguments, fds, fd_end) : -1;
    if (pid > 0)
        *place = pid;
    lock_drop(&store->lock);
    if (pid <= 0) {
        run.end = place ? SYMBOL_RUN_NOT_STARTED : SYMBOL_RUN_STORE_ENDS;
        return run;
    }
    bool was_late = await(pid, timeout_ms);
    lock_take(&store->lock);
    bool stopping = store->stopping;
    *place = 0;
    pthread_cond_signal(&store->worker_ended);
    lock_drop(&store->lock);
    while (wait4(pid, &run.status, 0, &usage) < 0 && errno == EINTR)
        continue;
    run.cpu_ms = milliseconds(&usage);
    run.end = stopping ? SYMBOL_RUN_STORE_ENDS : was_late ? SYMBOL_RUN_LATE : SYMBOL_RUN_ENDED;
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
