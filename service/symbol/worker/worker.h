/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker process that reads ELF files: it builds a symbol table, or a line table from their
 * DWARF, or disassembles their code. It is the service's own program, run with
 * SYMBOL_WORKER_ARGUMENT as its first argument. It gets open files, limits on memory, time and file
 * size, no privileges, and a system call filter that lets it read files, use memory and exit. So a
 * hostile file can only harm its worker. */
#ifndef SONDE_SERVICE_SYMBOL_WORKER_WORKER_H
#define SONDE_SERVICE_SYMBOL_WORKER_WORKER_H

#include "service/symbol/symbol.h"

#define SYMBOL_WORKER_ARGUMENT "--symbol-worker"

/* The limit of its CPU time. */
#define SYMBOL_WORKER_CPU_SECONDS 300

/* Its arguments are SYMBOL_WORKER_ARGUMENT, the kind of table, and the identity of the file. The
 * kind is also the end of the table's name in the cache. For SYMBOL_WORKER_CODE the identity is
 * "-", and the scratch file has the request. */
#define SYMBOL_WORKER_SYMBOLS "symbols" /* at normal priority */
#define SYMBOL_WORKER_LINES   "lines"   /* at low priority */
/* Not a table, but instructions (code/code_file.h). */
#define SYMBOL_WORKER_CODE "code"

/* Call these first in main, before any thread is started: if (symbol_worker_is_asked(argc, argv))
 * return symbol_worker_main(argc, argv); */
bool symbol_worker_is_asked(int argc, char **argv);
int symbol_worker_main(int argc, char **argv); /* does not return */

/* Its descriptors. Files that it does not need or that do not exist are /dev/null. */
enum {
    SYMBOL_WORKER_MAIN = 3, /* the mapped file, which has the code */
    SYMBOL_WORKER_DWARF,    /* lines: the file with the DWARF; symbols: the debug file */
    SYMBOL_WORKER_ALT,      /* the file that dwz moved shared DWARF to */
    SYMBOL_WORKER_PACKAGE,  /* the package of split units (.dwp) */
    SYMBOL_WORKER_SCRATCH,  /* empty files for the decompressed sections of the three files above */
    SYMBOL_WORKER_SCRATCH_ALT,
    SYMBOL_WORKER_SCRATCH_PACKAGE,
    SYMBOL_WORKER_SCRATCH_TABLE, /* an empty file for the collected lists */
    SYMBOL_WORKER_LAST_SCRATCH = SYMBOL_WORKER_SCRATCH_TABLE,
    SYMBOL_WORKER_OUT, /* the table to write */
    SYMBOL_WORKER_FD_END,
};

enum symbol_worker_exit {
    SYMBOL_WORKER_DONE = 0,
    SYMBOL_WORKER_NO_DWARF = 10,
    SYMBOL_WORKER_BROKEN,
    SYMBOL_WORKER_MEMORY,
    SYMBOL_WORKER_IO,
    SYMBOL_WORKER_CONFINED,   /* it could not drop its privileges and read nothing */
    SYMBOL_WORKER_NO_SPACE,   /* the disk is full */
    SYMBOL_WORKER_NO_LIBRARY, /* code: the disassembler is not installed */
    SYMBOL_WORKER_NO_CODE,    /* code: the file has no bytes for the addresses */
};

#endif
