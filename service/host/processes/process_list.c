/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/processes/process_list.h"

#include "service/host/processes/cgroup.h"
#include "service/host/processes/process_text.h"
#include "service/process/foreign_memory.h"
#include "service/process/live_thread.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROC "/proc"

_Static_assert(sizeof((struct process_entry *)0)->container == CGROUP_CONTAINER_BYTES,
               "a container's id fits");

/* An open directory of a process stays that process's: when it has ended and another one has its
 * pid, reads fail. So all that is read is about one process. */
static size_t read_at(int directory, const char *leaf, char *text, size_t size) {
    int fd = openat(directory, leaf, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, size - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[len > 0 ? len : 0] = 0;
    return len > 0 ? (size_t)len : 0;
}

/* The command line is memory of the process. */
static struct process_command read_command(int directory, pid_t pid, char *text, size_t size) {
    int fd = openat(directory, "cmdline", O_RDONLY | O_CLOEXEC);
    size_t len = foreign_memory_read_file(fd, pid, 0, text, size - 1);
    text[len] = 0;
    if (fd >= 0)
        close(fd);
    return (struct process_command){text, len};
}

/* The directory of a thread whose files have the process's content; see live_thread.h. */
static int open_live_thread(int directory, pid_t pid) {
    char path[32];
    snprintf(path, sizeof path, "task/%d", (int)process_live_thread(pid));
    return openat(directory, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static void read_names(int directory, struct process_entry *entry) {
    char words[4096], path[4096], text[8192], cgroup[CGROUP_BYTES];
    struct process_command command = read_command(directory, entry->pid, words, sizeof words);
    size_t auxv_len = read_at(directory, "auxv", text, 9);
    entry->is_32bit = process_auxv_is_32bit(text, auxv_len);
    ssize_t len = readlinkat(directory, "exe", path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    process_executable_name(entry->executable, sizeof entry->executable, path);
    process_name(entry->name, sizeof entry->name, &command, entry->executable, entry->comm);
    read_at(directory, "cgroup", text, sizeof text);
    cgroup_parse(text, cgroup);
    cgroup_container(cgroup, entry->container);
}

static bool read_entry(int directory, struct process_entry *entry) {
    char text[1024];
    struct stat owner; /* of the directory itself: the effective user */
    struct process_stat stat;
    entry->cpu_ns = process_cpu_ns(entry->pid); /* before stat, which shows that it was this one */
    if (fstat(directory, &owner) != 0 || read_at(directory, "stat", text, sizeof text) == 0 ||
        !process_stat_parse(text, &stat) || stat.has_ended)
        return false;
    entry->uid = owner.st_uid;
    entry->parent = stat.parent;
    memcpy(entry->comm, stat.comm, sizeof entry->comm);
    entry->start_ticks = stat.start_ticks;
    entry->threads = stat.threads;
    entry->is_kernel = stat.is_kernel;
    entry->is_stopped = stat.is_stopped;
    if (entry->is_kernel)
        process_name(entry->name, sizeof entry->name, &(struct process_command){"", 0}, "",
                     entry->comm);
    else if (!stat.main_ended)
        read_names(directory, entry);
    else {
        int thread = open_live_thread(directory, entry->pid);
        read_names(thread, entry);
        close(thread);
    }
    return true;
}

bool process_read(pid_t pid, struct process_entry *entry) {
    char path[32];
    *entry = (struct process_entry){.pid = pid};
    snprintf(path, sizeof path, PROC "/%d", (int)pid);
    int directory = pid > 0 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    bool is_there = directory >= 0 && read_entry(directory, entry);
    if (directory >= 0)
        close(directory);
    return is_there;
}

/* By the command line alone, from which almost all names are. Where process_name would use the
 * executable instead, it gets the wanted name here: then the process is a candidate. */
static bool may_be_called(pid_t pid, const char *name) {
    char words[4096], text[1024], found[sizeof((struct process_entry *)0)->name];
    struct process_stat stat;
    struct process_command command = {words, foreign_memory_command(pid, words, sizeof words - 1)};
    words[command.len] = 0;
    process_name(found, sizeof found, &command, name, name);
    if (strcmp(found, name) != 0)
        return false;
    return command.len > 0 || (process_file_read(PROC, pid, "stat", text, sizeof text) > 0 &&
                               process_stat_parse(text, &stat) && !stat.is_kernel);
}

static bool is_called(const struct process_entry *entry, const char *name) {
    return !entry->is_kernel && strcmp(entry->name, name) == 0;
}

/* name NULL: all. */
static struct process_entry *list(const char *name, size_t *count) {
    pid_t *pids;
    size_t pid_count;
    *count = 0;
    sonde_err err = process_numbers(PROC, PROCESS_MAX, &pids, &pid_count);
    struct process_entry *entries = err ? NULL : calloc(pid_count + 1, sizeof *entries);
    for (size_t i = 0; entries && i < pid_count; i++) {
        struct process_entry *entry = &entries[*count];
        if (!name || may_be_called(pids[i], name))
            *count += process_read(pids[i], entry) && (!name || is_called(entry, name));
    }
    free(pids);
    return entries;
}

struct process_entry *process_list(size_t *count) {
    return list(NULL, count);
}

struct process_entry *process_list_named(const char *name, size_t *count) {
    return list(name, count);
}
