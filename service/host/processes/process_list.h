/* SPDX-License-Identifier: Apache-2.0
 *
 * The processes of this machine, from /proc: for the list of what can be sampled, and to find
 * processes by name. Everything read here but pids, ids and times was chosen by the processes:
 * names are made plain ASCII, files are read with bounds. Any thread. */
#ifndef SONDE_SERVICE_HOST_PROCESSES_PROCESS_LIST_H
#define SONDE_SERVICE_HOST_PROCESSES_PROCESS_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PROCESS_MAX 65536u /* processes in one list; the others are left out */

struct process_entry {
    pid_t pid, parent;
    uid_t uid;     /* effective */
    char name[64]; /* as a target's: base name of argv[0], else of the executable, else comm */
    char comm[16];
    char executable[64];  /* base name; "" = not visible */
    char container[65];   /* id of its container; "" = none */
    uint64_t start_ticks; /* since boot; with pid it identifies the process */
    uint64_t cpu_ns;
    uint32_t threads;
    bool is_kernel; /* a kernel thread */
    bool is_32bit;
    bool is_stopped; /* by a signal or a debugger */
};

/* All processes that this user can see, in no order; the caller frees the list. NULL and *count 0
 * when out of memory or without /proc. */
struct process_entry *process_list(size_t *count);
/* The same for those of that name, without kernel threads. Of the others only the command line is
 * read. */
struct process_entry *process_list_named(const char *name, size_t *count);
/* One process. False: it is gone, or waits for its parent to notice that. */
bool process_read(pid_t pid, struct process_entry *entry);

#endif
