/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens the file behind a mapping of a live process, and its debug files. The path of a mapping is
 * only a hint, because by now it can be another file, and the process can have another root. An
 * opened file is accepted if its device, inode and inode generation (where it is known) match the
 * mapping, or if its build-id matches the one in the process's memory. Files are opened with the
 * rights of the calling thread (service/process). Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_LOCATE_LOCATE_H
#define SONDE_SERVICE_SYMBOL_LOCATE_LOCATE_H

#include "api/elf/elf.h"
#include "service/symbol/symbol.h"

#include <limits.h>

/* Opens the mapped file for reading: by /proc/PID/map_files, /proc/PID/exe, the path in the
 * process's root, or the path in ours. Returns -1 and the reason if none of these is accepted. */
int symbol_locate_file(pid_t pid, const struct symbol_mapping *mapping, enum symbol_reason *reason);

/* For anonymous memory into which a program copied its own code, opens the file that the code is
 * from. Sets its path and the bias (runtime address - ELF vaddr). -1 = this is not such memory. */
int symbol_locate_remapped(pid_t pid, const struct symbol_mapping *mapping, uint64_t *bias,
                           char path[PATH_MAX]);

/* Opens the debug file of the ELF file at `path`: by build-id under each of the ':'-separated
 * roots, then by .gnu_debuglink. Each is tried in the process's root (pid 0 = none), then in ours.
 * The debug file's build-id or checksum must match, and beside the ELF file it must belong to that
 * file's owner, to root or to sonded's own user. -1 = none. */
int symbol_locate_debug(const struct elf_file *elf, pid_t pid, const char *path, const char *roots);

/* Opens the file to which dwz moved shared DWARF, as named by .gnu_debugaltlink in the file at
 * `near`. Its build-id must match. -1 = none. */
int symbol_locate_alt(const struct elf_file *elf, pid_t pid, const char *near, const char *roots);

/* The same for an open file, whose path the kernel knows. */
int symbol_locate_alt_of(int fd, pid_t pid, const char *roots);

/* Opens a regular file for reading, without blocking, in the root of a process (pid 0 = ours). */
int symbol_open_in_root(pid_t pid, const char *path);
/* The same, but fails if the last part of the path is a symbolic link. */
int symbol_open_no_link(pid_t pid, const char *path);

/* Opens the regular file behind a mapping by /proc/PID/map_files, which works for a deleted file,
 * too. Finding the file needs sonded's rights, reading it those of the calling thread
 * (service/process); a user's sonded may have a sampler do both. -1 = not allowed, or no such
 * mapping. */
int symbol_open_mapped(pid_t pid, const struct symbol_mapping *mapping);

/* A copy of our own vdso in memory; -1 = none. All 64-bit processes of a kernel have the same
 * one. */
int symbol_vdso_open(uint64_t *size);

/* The running kernel's build-id in hex; "" = unknown. */
void symbol_kernel_build_id(char text[2 * ELF_BUILD_ID_MAX + 1]);

#endif
