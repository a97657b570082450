/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads and parses the files of /proc that every scan of processes needs. The processes choose most
 * of what these files contain, so reads have bounds and names become plain ASCII. proc is "/proc",
 * or a copy of it in tests. Any thread. */
#ifndef SONDE_SERVICE_HOST_PROCESSES_PROCESS_TEXT_H
#define SONDE_SERVICE_HOST_PROCESSES_PROCESS_TEXT_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The directory's entries that are numbers (processes of /proc, threads of a task folder), sorted,
 * at most limit; the caller frees them. SONDE_IO, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err process_numbers(const char *path, size_t limit, pid_t **numbers,
                                         size_t *count);
/* At most size - 1 bytes of PROC/PID/leaf and a NUL; 0 if that failed. */
size_t process_file_read(const char *proc, pid_t pid, const char *leaf, char *text, size_t size);
/* The CPU clock of a process; 0 = it is gone. Needs no rights. */
uint64_t process_cpu_ns(pid_t pid);

struct process_stat {
    char comm[16]; /* plain ASCII; may contain blanks */
    pid_t parent;
    bool is_kernel;
    bool has_ended;  /* a zombie, all of whose threads have ended */
    bool main_ended; /* the main thread has ended */
    bool is_stopped; /* by a signal or a debugger */
    uint32_t threads;
    uint64_t cpu_ticks, start_ticks;
};

/* /proc/PID/stat. */
bool process_stat_parse(const char *text, struct process_stat *stat);
/* /proc/PID/auxv, as far as it was read. */
bool process_auxv_is_32bit(const char *auxv, size_t len);

/* A thread's name in plain ASCII. It may contain blanks. */
void process_comm_clean(char to[16], const char *from, size_t len);
/* Names appear in URLs, logs and terminals: every byte that is not plain ASCII becomes '_', and so
 * does an '@' at the start, which means a group of processes there. */
void process_name_clean(char *out, size_t size, const char *text);
/* The base name of a path as the link /proc/PID/exe has it. */
void process_executable_name(char *out, size_t size, const char *link);
/* /proc/PID/cmdline: words separated by NULs, with a NUL behind the last. */
struct process_command {
    const char *text;
    size_t len; /* without that NUL */
};

/* The name of a process: the base name of argv[0] without what the process added to it (as
 * "nginx: worker process"), else the executable's, else comm. A program that the dynamic linker was
 * told to start has the name of that program. */
void process_name(char *out, size_t size, const struct process_command *command,
                  const char *executable, const char *comm);

#endif
