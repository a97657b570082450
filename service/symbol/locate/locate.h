/* SPDX-License-Identifier: Apache-2.0
 *
 * Which file is behind a mapping of a live process, and which file of debug information belongs to
 * it. A path is only a hint: it may name another file by now, or be seen from another root. What is
 * opened counts only when device and inode, or the build-id read from the process's own memory, say
 * that it is the same. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_LOCATE_LOCATE_H
#define SONDE_SERVICE_SYMBOL_LOCATE_LOCATE_H

#include "api/elf/elf.h"
#include "service/symbol/symbol.h"

#include <limits.h>

/* The mapped file, opened for reading; -1 and the reason when none can be trusted. */
int symbol_locate_file(pid_t pid, const struct symbol_mapping *mapping, enum symbol_reason *reason);

/* The file whose code was copied into anonymous memory in its own place, its path, and runtime
 * address - ELF vaddr; -1 = this is no such memory. */
int symbol_locate_remapped(pid_t pid, const struct symbol_mapping *mapping, uint64_t *bias,
                           char path[PATH_MAX]);

/* The debug file of an ELF file: by build-id under each of the ':'-separated roots, here and inside
 * the process's root, then by .gnu_debuglink. Its build-id or checksum fits. -1 = none. pid 0 =
 * only here. `path` is where the ELF file itself is. */
int symbol_locate_debug(const struct elf_file *elf, pid_t pid, const char *path, const char *roots);

/* The file that .gnu_debugaltlink names (dwz), with that build-id; -1 = none. `near` is the path of
 * the file that has the link. */
int symbol_locate_alt(const struct elf_file *elf, pid_t pid, const char *near, const char *roots);

/* The same for an open file, whose own path is asked of the kernel. */
int symbol_locate_alt_of(int fd, pid_t pid, const char *roots);

/* Opens a regular file for reading without waiting, inside the root of a process (pid 0 = ours). */
int symbol_open_in_root(pid_t pid, const char *path);
/* The same, but the last part of the path must be no link. */
int symbol_open_no_link(pid_t pid, const char *path);

/* Our own copy of the vdso, in memory; -1 = none. The same bytes are in every process of a
 * kernel. */
int symbol_vdso_open(uint64_t *size);

/* When the process started, in clock ticks since boot; 0 = it is gone. Tells pids apart. */
uint64_t symbol_process_start(pid_t pid);

/* The running kernel's, in hex; "" = unknown. */
void symbol_kernel_build_id(char text[2 * ELF_BUILD_ID_MAX + 1]);

#endif
