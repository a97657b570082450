/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiles an ELF file's compact unwind table (table.h). It reads .eh_frame, which it finds by its
 * section header or by PT_GNU_EH_FRAME, and .debug_frame, also of a debug file, for functions that
 * .eh_frame does not have. Functions of static programs and of musl that neither has get rows by an
 * analysis of their instructions (service/unwind/code). Files are hostile: a broken section is an
 * error, a broken function becomes a gap. Memory: the sections, of at most 512 MiB each, and about
 * twice the table.
 *
 * Thread and signal safety: any thread; takes 0.1 to 50 ms, so call it from a worker. */
#ifndef SONDE_SERVICE_UNWIND_TABLE_TABLE_BUILD_H
#define SONDE_SERVICE_UNWIND_TABLE_TABLE_BUILD_H

#include "api/bytes.h"
#include "api/elf/elf.h"
#include "service/unwind/table/table.h"

/* Appends the table of the file behind fd to `table`, which must be empty and owns the bytes. The
 * file position is neither used nor moved. SONDE_INVALID_ARGUMENT: not an ELF file for the machine
 * that this program runs on. SONDE_NOT_AVAILABLE: it has no unwind information. SONDE_CORRUPT (also
 * when it cannot be read), SONDE_TOO_LARGE, SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err unwind_table_build(int fd, struct sonde_buf *table,
                                            struct sonde_diag *diag);
/* The same for a file of any machine that Sonde reads; the table's header says which. */
SONDE_MUST_USE sonde_err unwind_table_build_any(const struct elf_input *input,
                                                struct sonde_buf *table, struct sonde_diag *diag);
/* Whether the file behind fd lacks a .debug_frame that its debug file has. debug_fd: -1 = none. */
bool unwind_table_needs_debug(int fd, int debug_fd);
/* Like unwind_table_build, with the .debug_frame of the debug file. If that is broken, the table is
 * built without it. */
SONDE_MUST_USE sonde_err unwind_table_build_with_debug(int fd, int debug_fd,
                                                       struct sonde_buf *table,
                                                       struct sonde_diag *diag);
/* The same for a file in memory (the vdso). */
SONDE_MUST_USE sonde_err unwind_table_build_memory(const void *base, size_t size,
                                                   struct sonde_buf *table,
                                                   struct sonde_diag *diag);

#endif
