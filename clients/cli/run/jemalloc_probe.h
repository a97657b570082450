/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds out, before a program is started, which jemalloc it would load and whether that one was
 * built with heap profiling. A jemalloc without it rejects prof:true: it prints an error, and with
 * abort_conf:true it aborts. Nothing of the program runs: its dynamic linker lists the libraries
 * (ld.so --list), LD_PRELOAD included, and their bytes are searched. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_JEMALLOC_PROBE_H
#define SONDE_CLIENTS_CLI_RUN_JEMALLOC_PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define JEMALLOC_VARIABLES   3u /* a jemalloc whose functions have a prefix has its own variable */
#define JEMALLOC_PROBE_FILES 512u

extern const char *const jemalloc_variables[JEMALLOC_VARIABLES];

/* What was found in all files so far. Zeroed memory is a valid start. */
struct jemalloc_probe {
    bool profiles[JEMALLOC_VARIABLES]; /* a jemalloc with profiling reads that variable */
    bool lacks[JEMALLOC_VARIABLES];    /* one without profiling reads it */
    bool has_setting;                  /* a file with a jemalloc, or a program, has prof:true */
    uint32_t file_count;               /* files that were searched, each of them once */
    struct {
        dev_t device;
        ino_t inode;
    } files[JEMALLOC_PROBE_FILES];
};

/* Adds what a program file and its libraries have. Files that are not ELF, that cannot be read, or
 * beyond JEMALLOC_PROBE_FILES add nothing. A library that is loaded later with dlopen is not
 * found. */
void jemalloc_probe_program(struct jemalloc_probe *probe, const char *path);

#endif
