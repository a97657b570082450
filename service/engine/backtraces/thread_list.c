/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the threads of a process from /proc: their names, states and CPU times. */
#include "api/base/array.h"
#include "service/engine/backtraces/backtraces_request.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ssize_t read_file(const struct backtraces *all, pid_t tid, const char *name, char *text,
                         size_t size) {
    char path[48];
    snprintf(path, sizeof path, "%d/%s", (int)tid, name);
    int fd = openat(all->task_dir, path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    text[got > 0 ? got : 0] = 0;
    return got;
}

static int by_tid(const void *a, const void *b) {
    const struct engine_thread *left = a, *right = b;
    return (left->tid > right->tid) - (left->tid < right->tid);
}

static sonde_err add_threads(struct backtraces *all, DIR *dir) {
    uint32_t capacity = 0;
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (tid <= 0 || (all->spec.tid && tid != all->spec.tid))
            continue;
        if (all->thread_count == all->spec.max_threads) {
            all->left_out++;
            continue;
        }
        if (!array_room(&all->threads, &capacity, all->thread_count, 1))
            return SONDE_OUT_OF_MEMORY;
        all->threads[all->thread_count++] =
            (struct engine_thread){.tid = tid, .name = "", .wait_channel = "", .error = ""};
    }
    if (all->thread_count > 1)
        qsort(all->threads, all->thread_count, sizeof *all->threads, by_tid);
    return SONDE_OK;
}

sonde_err backtraces_check(const struct backtraces *all, struct sonde_diag *diag) {
    if (process_identity_holds(all->process))
        return SONDE_OK;
    return sonde_fail(diag, SONDE_TARGET_GONE,
                      "process %d is no longer the process that connected: it has ended, or its "
                      "user or group changed",
                      (int)all->pid);
}

sonde_err backtraces_list(struct backtraces *all, struct sonde_diag *diag) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/task", (int)all->pid);
    all->task_dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int own = all->task_dir < 0 ? -1 : fcntl(all->task_dir, F_DUPFD_CLOEXEC, 0);
    DIR *dir = own < 0 ? NULL : fdopendir(own);
    if (!dir) {
        if (own >= 0)
            close(own);
        return sonde_fail(diag, SONDE_TARGET_GONE, "the process %d has ended", (int)all->pid);
    }
    sonde_err err = backtraces_check(all, diag);
    if (!err)
        err = add_threads(all, dir);
    closedir(dir);
    if (!err && all->thread_count == 0 && all->spec.tid)
        return sonde_fail(diag, SONDE_NOT_FOUND, "process %d has no thread %d", (int)all->pid,
                          (int)all->spec.tid);
    return err;
}

/* "tid (name) state ppid ..."; the name may contain anything, even ") R 1". */
static bool parse_status(struct backtraces *all, struct engine_thread *thread, char *text) {
    static const uint64_t tick_ns = 1000000000ull;
    char *open = strchr(text, '('), *close = strrchr(text, ')');
    if (!open || !close || close < open || close[1] != ' ')
        return false;
    unsigned long user, system;
    if (sscanf(close + 2, "%c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &thread->state,
               &user, &system) != 3)
        return false;
    uint64_t ticks = (uint64_t)sysconf(_SC_CLK_TCK);
    thread->user_ns = user * (tick_ns / ticks);
    thread->system_ns = system * (tick_ns / ticks);
    thread->cpu_ns = thread->user_ns + thread->system_ns;
    const char *name = sonde_arena_dup(&all->arena, open + 1, (size_t)(close - open - 1));
    thread->name = name ? name : "";
    return true;
}

bool backtraces_read(struct backtraces *all, struct engine_thread *thread) {
    char text[1024];
    if (read_file(all, thread->tid, "stat", text, sizeof text) <= 0 ||
        !parse_status(all, thread, text))
        return false;
    /* "run_ns wait_ns slices": exact, unlike the tick counts in stat. */
    if (read_file(all, thread->tid, "schedstat", text, sizeof text) > 0) {
        uint64_t cpu_ns = strtoull(text, NULL, 10);
        thread->cpu_ns = cpu_ns ? cpu_ns : thread->cpu_ns;
    }
    ssize_t len = read_file(all, thread->tid, "wchan", text, sizeof text);
    if (len > 0 && strcmp(text, "0") != 0) {
        const char *channel = sonde_arena_dup(&all->arena, text, (size_t)len);
        thread->wait_channel = channel ? channel : "";
    }
    return true;
}
