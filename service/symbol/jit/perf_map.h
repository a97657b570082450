/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of code made at run time, as JIT compilers write them for perf: lines "START SIZE NAME" in
 * /tmp/perf-PID.map. A later line overrides what it overlaps: that code was compiled again. The
 * file is anybody's input: the caller has checked whose it is; here each line may be anything. Also
 * /proc/kallsyms, whose lines are "ADDRESS TYPE NAME [MODULE]". Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_JIT_PERF_MAP_H
#define SONDE_SERVICE_SYMBOL_JIT_PERF_MAP_H

#include "service/symbol/jit/interval_overlay.h"
#include "service/symbol/symtab/collect_symbols.h"

#include <sys/types.h>

/* Read from the end of the file when it is longer: later lines count more. */
#define SYMBOL_PERF_MAP_BYTES ((size_t)64 << 20)
#define SYMBOL_PERF_MAP_LINES (512u << 10) /* of that the last ones */

/* Opens the map of a process, inside its own root by the pid it has there, else on the host; only a
 * regular file of the process's own user, and no link. -1 = none. */
int symbol_perf_map_open(pid_t pid);
/* Opens a process's jit-PID.dump: the one that it has mapped executable, which is how a compiler
 * tells perf where it is. The same conditions. */
int symbol_jitdump_open(pid_t pid);
/* The part that is read of a file. */
SONDE_MUST_USE sonde_err symbol_perf_map_load(int fd, struct sonde_buf *text);
/* Adds disjoint symbols. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_perf_map_parse(const char *text, size_t len,
                                               struct symbol_collection *collection);

/* The lines as ranges, their names by offset into the text. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_perf_map_ranges(const char *text, size_t len,
                                                struct symbol_ranges *ranges);
/* Adds a symbol whose name is shown as it is. */
void symbol_collection_plain(struct symbol_collection *collection, const char *name, size_t len,
                             uint64_t start, uint64_t end);

/* False when every address is zero: the kernel hides them. */
SONDE_MUST_USE bool symbol_kallsyms_parse(const char *text, size_t len,
                                          struct symbol_collection *collection);

#endif
