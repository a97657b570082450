/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading /proc/self by plain system calls into the caller's memory, without malloc or stdio. Any
 * thread, except where a function says control thread; not signal-safe. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_PROCFS_H
#define SONDE_SERVICE_GUEST_PROCESS_PROCFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the first size - 1 bytes of a file and adds a NUL: the length, or -errno. */
long procfs_read_file(const char *path, char *buffer, size_t size);

/* Calls visit for each name in a directory that is a number (/proc/self/task, /proc/self/fd). False
 * when the directory cannot be read. Control thread only: the buffer is static. */
bool procfs_each_number(const char *path, void (*visit)(uint32_t number, void *context),
                        void *context);

/* Field `number` (from 3) of /proc/self/stat, 0 when it cannot be read. */
uint64_t procfs_stat_field(int number);

/* Reads a hexadecimal line of a thread's status file, such as "SigBlk:". Returns 0 if it cannot be
 * read. */
uint64_t procfs_task_mask(uint32_t tid, const char *line);

/* A thread's seccomp mode (0 none, 1 strict, 2 filter) and number of filters, which is 0 before
 * Linux 5.9. Returns false if its status file cannot be read. */
struct procfs_seccomp {
    uint64_t mode, filters;
};
bool procfs_task_seccomp(uint32_t tid, struct procfs_seccomp *seccomp);

/* Whether a debugger, or another tracer in this pid namespace, is attached to the calling
 * thread. */
bool procfs_is_traced(void);

/* The thread's name, padded with NULs; all zero when the thread has ended. */
void procfs_task_name(uint32_t tid, char name[16]);

/* Whether the thread is blocked in the kernel, and if so its user-mode pc and sp. RUNNING: it runs
 * or waits for a CPU. UNKNOWN: the kernel does not allow the question, or the thread has ended. */
enum procfs_state { PROCFS_UNKNOWN, PROCFS_RUNNING, PROCFS_BLOCKED };
enum procfs_state procfs_task_state(uint32_t tid, uint64_t *pc, uint64_t *sp);

/* How long the thread has waited for a CPU since it started; -1 when the kernel does not count
 * that. */
int64_t procfs_task_waited_ns(uint32_t tid);

#endif
