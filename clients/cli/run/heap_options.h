/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides in which variables `sonde run --heap` asks jemalloc to be ready for heap profiles. A
 * variable is only changed if a jemalloc with profiling reads it and none without. The programs
 * that are looked at are the command, its interpreter, and every program that the words of a
 * wrapper (env, sh -c) or of a script name. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_RUN_HEAP_OPTIONS_H
#define SONDE_CLIENTS_CLI_RUN_HEAP_OPTIONS_H

#include "clients/cli/run/jemalloc_probe.h"

/* jemalloc's default for prof_active is true. Without prof_accum, which keeps every stack in memory
 * for ever: nothing here needs it. */
#define HEAP_OPTIONS "prof:true,prof_active:false"

struct heap_options {
    bool is_added[JEMALLOC_VARIABLES]; /* HEAP_OPTIONS goes in front of that variable's value */
    char reason[256]; /* for the user: why a jemalloc was not prepared; "" = nothing to say */
};

/* `path` is the file of argv[0]. Starts dynamic linkers and waits for them. */
void heap_options_choose(const char *path, char *const *argv, struct heap_options *options);

#endif
