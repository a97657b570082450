/* SPDX-License-Identifier: Apache-2.0 */
#include "service/host/processes/process_list.h"

#include "service/host/processes/cgroup.h"
#include "service/host/processes/process_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROC "/proc"

_Static_assert(sizeof((struct process_entry *)0)->container == CGROUP_CONTAINER_BYTES,
               "a container's id fits");

static void read_executable(struct process_entry *entry) {
    char link[64], path[4096];
    snprintf(link, sizeof link, PROC "/%d/exe", (int)entry->pid);
    ssize_t len = readlink(link, path, sizeof path - 1);
    path[len > 0 ? len : 0] = 0;
    process_executable_name(entry->executable, sizeof entry->executable, path);
}

static void read_names(struct process_entry *entry) {
    char command[4096] = "", auxv[8], cgroup[CGROUP_BYTES];
    if (!entry->is_kernel) {
        process_file_read(PROC, entry->pid, "cmdline", command, sizeof command);
        size_t len = process_file_read(PROC, entry->pid, "auxv", auxv, sizeof auxv);
        entry->is_32bit = process_auxv_is_32bit(auxv, len);
        read_executable(entry);
    }
    process_name(entry->name, sizeof entry->name, command, entry->executable, entry->comm);
    cgroup_read(entry->pid, cgroup);
    cgroup_container(cgroup, entry->container);
}

static bool read_stat(pid_t pid, struct process_stat *stat) {
    char text[1024];
    return process_file_read(PROC, pid, "stat", text, sizeof text) > 0 &&
           process_stat_parse(text, stat);
}

bool process_read(pid_t pid, struct process_entry *entry) {
    struct process_stat stat, again;
    char status[4096];
    *entry = (struct process_entry){.pid = pid};
    if (pid <= 0 || !read_stat(pid, &stat) || stat.has_ended ||
        process_file_read(PROC, pid, "status", status, sizeof status) == 0 ||
        !process_uid_parse(status, &entry->uid))
        return false;
    entry->parent = stat.parent;
    memcpy(entry->comm, stat.comm, sizeof entry->comm);
    entry->start_ticks = stat.start_ticks;
    entry->threads = stat.threads;
    entry->is_kernel = stat.is_kernel;
    entry->cpu_ns = process_cpu_ns(pid);
    read_names(entry);
    /* What was read belongs to one process only if the pid has not changed its owner. */
    return read_stat(pid, &again) && again.start_ticks == stat.start_ticks;
}

/* By the command line alone, from which almost all names are. Where process_name would use the
 * executable instead, it gets the wanted name here: then the process is a candidate. */
static bool may_be_called(pid_t pid, const char *name) {
    char command[4096], found[sizeof((struct process_entry *)0)->name];
    struct process_stat stat;
    bool has_command = process_file_read(PROC, pid, "cmdline", command, sizeof command) > 0;
    process_name(found, sizeof found, command, name, name);
    if (strcmp(found, name) != 0)
        return false;
    return has_command || (read_stat(pid, &stat) && !stat.is_kernel);
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
