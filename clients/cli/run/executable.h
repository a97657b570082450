/* SPDX-License-Identifier: Apache-2.0
 *
 * Checks a program file before it is started: whether libsonde.so can be preloaded into it, and
 * which symbol tables it has. Reads a bounded part of the file and trusts none of it. Main thread
 * only. */
#ifndef SONDE_CLIENTS_CLI_RUN_EXECUTABLE_H
#define SONDE_CLIENTS_CLI_RUN_EXECUTABLE_H

#include "api/error.h"

#include <limits.h>
#include <stdbool.h>

/* Finds the file that execvp(name) would start. SONDE_NOT_FOUND if there is none,
 * SONDE_PERMISSION_DENIED if it is not executable. */
SONDE_MUST_USE sonde_err executable_find(const char *name, char path[PATH_MAX],
                                         struct sonde_diag *diag);

/* SONDE_NOT_AVAILABLE, with the reason and what to do, if preloading cannot work: the program is
 * static, set-id, or for another libc. If it cannot be sampled from outside either, the error is
 * SONDE_INVALID_ARGUMENT (another machine) or SONDE_PERMISSION_DENIED (set-id, and not for root).
 * For a script, checks its interpreter. Files it does not understand pass; exec will report any
 * problem. */
SONDE_MUST_USE sonde_err executable_check(const char *path, struct sonde_diag *diag);

/* The same for the program that a command runs behind timeout, env, a shell and so on: the first
 * word that names a program file. SONDE_OK if the command has no such wrapper, or no word does. The
 * options of wrappers are not understood, so a word may be taken for a program that is none. */
SONDE_MUST_USE sonde_err executable_check_wrapped(char *const *argv, struct sonde_diag *diag);

/* Whether a program of that name or path only starts others: env, timeout, a shell, the dynamic
 * linker and so on. */
bool executable_is_wrapper(const char *program);

/* Reads the path in PT_INTERP; "" if the program has none. False if it cannot be read. */
struct elf_file;
bool executable_interpreter(const struct elf_file *elf, char text[256]);

/* The symbol tables of an ELF file. All false if it cannot be read. */
struct executable_symbols {
    bool is_elf, symtab, dynsym, debugdata, debug_info, build_id;
};
struct executable_symbols executable_symbols(int fd);

#endif
