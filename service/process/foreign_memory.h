/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads the memory of other processes: their stacks, their code, and files of /proc such as
 * cmdline, whose bytes come from the process's own pages.
 *
 * Such a page may belong to a file of a FUSE mount whose server never answers. Whoever reads it
 * waits, and not even SIGKILL ends the wait. So processes of their own do all such reads:
 *
 *     this process ── request ──▶ reader ── bytes ──▶ this process
 *          └── a socket for each reader ──▶ keeper, which forks readers
 *
 * A read that takes FOREIGN_MEMORY_MS has failed. Its reader is left behind; it ends when the read
 * does. Meanwhile the memory of that user's processes is not read again, and others' is, by another
 * reader. Keeper and readers have no descriptor but their sockets, and end with this process.
 *
 * The caller checks, before and after, that the pid is still the process it means. Any thread. */
#ifndef SONDE_SERVICE_PROCESS_FOREIGN_MEMORY_H
#define SONDE_SERVICE_PROCESS_FOREIGN_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FOREIGN_MEMORY_MS      1000
#define FOREIGN_MEMORY_READERS 16u /* with those left behind */
#define FOREIGN_MEMORY_OF_USER 2u  /* at a time, for the processes of a user */

/* Starts the keeper. Call it before this process has threads and much memory; otherwise the first
 * read starts it. */
void foreign_memory_start(void);

/* Copies memory of the process. Returns the number of bytes, from the beginning, that could be
 * read. */
size_t foreign_memory_read(pid_t pid, uint64_t address, void *bytes, size_t len);
/* The same from a file of the process: /proc/PID/mem, or another one of /proc/PID. */
size_t foreign_memory_read_file(int fd, pid_t pid, uint64_t offset, void *bytes, size_t len);
/* Opens /proc/PID/cmdline and reads up to len bytes. */
size_t foreign_memory_command(pid_t pid, void *bytes, size_t len);

/* Readers that were left behind and have not ended. */
uint32_t foreign_memory_stuck(void);
/* For tests: the process group of keeper and readers; 0 = there is none. */
pid_t foreign_memory_group(void);

#endif
