/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine and the process allow, read from /proc and the kernel by plain system calls into
 * the caller's memory; and a few words about it. No stdio, no malloc. Any thread; not
 * signal-safe. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_LIMITS_H
#define SONDE_SERVICE_GUEST_PROCESS_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool limits_kernel_at_least(unsigned major, unsigned minor);
/* Open descriptors now (counted up to 65536) and RLIMIT_NOFILE's soft value (at most 1 << 20). */
void limits_descriptors(int *open_now, int *most);
uint32_t limits_cpus(void);

/* The file's first bytes, NUL-terminated: length or -errno. */
long limits_read_file(const char *path, char *buffer, size_t size);
/* Field `number` (from 1) of /proc/self/stat, 0 when unreadable. */
uint64_t limits_stat_field(int number);
/* Value of a hexadecimal line such as "SigBlk:" of /proc/self/task/TID/status; 0 when there is
 * none. */
uint64_t limits_task_mask(uint32_t tid, const char *name);
/* A thread's name, NUL-padded; all zero when it has ended. */
void limits_task_name(uint32_t tid, char name[16]);

enum limits_whereabouts { LIMITS_UNKNOWN, LIMITS_RUNNING, LIMITS_BLOCKED };
/* Where a thread of ours is blocked in the kernel. RUNNING: it runs, or waits for a CPU. */
enum limits_whereabouts limits_task_where(uint32_t tid, uint64_t *pc, uint64_t *sp);
/* How long it has waited for a CPU in all its life; -1 = the kernel does not tell. */
int64_t limits_task_waited_ns(uint32_t tid);

/* text is cut when it does not fit; always NUL-terminated. */
void limits_append(char *buffer, size_t size, const char *text);
void limits_append_number(char *buffer, size_t size, uint64_t number);
/* "EACCES" and so on; "error 95" in static memory of the control thread otherwise. */
const char *limits_error_name(int error);

/* Calls visit(number) for each name of a directory that is a number (/proc/self/task,
 * /proc/self/fd). False when it cannot be read. Control thread only (static buffer). */
bool limits_each_number(const char *path, void (*visit)(uint32_t number, void *context),
                        void *context);

#endif
