/* SPDX-License-Identifier: Apache-2.0
 *
 * A program file, looked at before it is started: can the dynamic linker load a guest into it, and
 * which names does it carry? Reads a bounded part of the file and believes nothing in it.
 * Main thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_EXECUTABLE_H
#define SONDE_CLIENTS_CLI_RUN_EXECUTABLE_H

#include "api/error.h"

#include <limits.h>
#include <stdbool.h>

/* The file that execvp(name) would start. SONDE_NOT_FOUND; SONDE_PERMISSION_DENIED when it is there
 * but cannot be executed. */
SONDE_MUST_USE sonde_err executable_find(const char *name, char path[PATH_MAX],
                                         struct sonde_diag *diag);

/* SONDE_NOT_AVAILABLE, with the reason and what to do, when preloading cannot work: a static, a
 * foreign or a set-id program. A script stands for its interpreter. Anything not understood is
 * taken to be fine: the kernel has the last word. */
SONDE_MUST_USE sonde_err executable_check(const char *path, struct sonde_diag *diag);

/* Which symbol tables an ELF file has. All false when it cannot be read. */
struct executable_symbols {
    bool is_elf, symtab, dynsym, debugdata, debug_info, build_id;
};
struct executable_symbols executable_symbols(int fd);

#endif
