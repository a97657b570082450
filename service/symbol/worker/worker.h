/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker process that turns an ELF file into a table of names, or its DWARF into a full table:
 * the service's own program, started again with SYMBOL_WORKER_ARGUMENT as its first argument. It
 * has a few descriptors and nothing else: bounds on memory, time and file size, no privileges, and
 * a filter that leaves it no system call but reading, memory and its end. A hostile file costs this
 * process. */
#ifndef SONDE_SERVICE_SYMBOL_WORKER_WORKER_H
#define SONDE_SERVICE_SYMBOL_WORKER_WORKER_H

#include "service/symbol/symbol.h"

#define SYMBOL_WORKER_ARGUMENT "--symbol-worker"

/* What it may use of the processor before it is ended. */
#define SYMBOL_WORKER_CPU_SECONDS 300

/* Its arguments are SYMBOL_WORKER_ARGUMENT, what to make, and the identity of the file. "names":
 * the table of names, wanted soon; "full": the full table, at low priority. */
#define SYMBOL_WORKER_NAMES "names"
#define SYMBOL_WORKER_FULL  "full"

/* For the first lines of the service's main: if (symbol_worker_is_asked(argc, argv)) return
 * symbol_worker_main(argc, argv); before any thread is started. Library //service/symbol:worker. */
bool symbol_worker_is_asked(int argc, char **argv);
int symbol_worker_main(int argc, char **argv); /* does not return */

/* Its descriptors. */
enum {
    SYMBOL_WORKER_MAIN = 3, /* the mapped file: where the text is */
    SYMBOL_WORKER_DWARF,    /* the file with the DWARF, may be the same; of names: the debug file,
                             * /dev/null = none */
    SYMBOL_WORKER_ALT,      /* what dwz moved away; /dev/null = none */
    SYMBOL_WORKER_PACKAGE,  /* split units (.dwp); /dev/null = none */
    SYMBOL_WORKER_SCRATCH,  /* empty files for inflated sections */
    SYMBOL_WORKER_SCRATCH_ALT,
    SYMBOL_WORKER_SCRATCH_PACKAGE,
    SYMBOL_WORKER_SCRATCH_TABLE, /* and for what is collected */
    SYMBOL_WORKER_LAST_SCRATCH = SYMBOL_WORKER_SCRATCH_TABLE,
    SYMBOL_WORKER_OUT, /* the table */
    SYMBOL_WORKER_FD_END,
};

enum symbol_worker_exit {
    SYMBOL_WORKER_DONE = 0,
    SYMBOL_WORKER_NO_DWARF = 10,
    SYMBOL_WORKER_BROKEN,
    SYMBOL_WORKER_MEMORY,
    SYMBOL_WORKER_IO,
    SYMBOL_WORKER_CONFINED, /* it could not give up its rights, and did not begin */
    SYMBOL_WORKER_NO_SPACE, /* for a scratch file */
};

#endif
