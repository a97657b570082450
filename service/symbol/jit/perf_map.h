/* SPDX-License-Identifier: Apache-2.0
 *
 * Parses /tmp/perf-PID.map, in which JIT compilers write lines "START SIZE NAME" for perf, and
 * /proc/kallsyms, whose lines are "ADDRESS TYPE NAME [MODULE]". In a perf map, a later line
 * overrides those that it overlaps. Callers have checked the file's owner, but its lines are
 * untrusted. Thread safety: any thread. */
#ifndef SONDE_SERVICE_SYMBOL_JIT_PERF_MAP_H
#define SONDE_SERVICE_SYMBOL_JIT_PERF_MAP_H

#include "service/symbol/jit/interval_overlay.h"
#include "service/symbol/symtab/collect_symbols.h"

#include <sys/types.h>

/* Limits. The end of a longer file is read, because later lines override earlier ones. */
#define SYMBOL_PERF_MAP_BYTES ((size_t)64 << 20)
#define SYMBOL_PERF_MAP_LINES (512u << 10)

/* Opens the map of a process: in the process's root, by its pid in its own namespace, else in our
 * root. Only a regular file of the process's user counts, and no symbolic link. -1 = none. Sets
 * *owner to that user. */
int symbol_perf_map_open(pid_t pid, uid_t *owner);
/* Opens the map that a process of that user has left in our root, unless the pid is in use again.
 * -1 = none. */
int symbol_perf_map_open_left(pid_t pid, uid_t owner);
/* Opens a process's jit-PID.dump. A JIT compiler maps one page of it executable, which is how perf
 * and this function find it. The same conditions. */
int symbol_jitdump_open(pid_t pid);
/* Reads the last `limit` bytes of the file, at most SYMBOL_PERF_MAP_BYTES. */
SONDE_MUST_USE sonde_err symbol_perf_map_load(int fd, size_t limit, struct sonde_buf *text);
/* Adds the lines to an overlay; interval.name is an offset into text. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_perf_map_intervals(const char *text, size_t len,
                                                   struct symbol_overlay *overlay);
/* Adds a symbol with SYMBOL_IS_PLAIN. */
void symbol_collection_plain(struct symbol_collection *collection, const char *name, size_t len,
                             uint64_t start, uint64_t end);

/* The kernel's own code, without modules and BPF programs. */
struct symbol_core {
    uint64_t first, last; /* UINT64_MAX and 0: none is known */
};

/* False if all addresses are zero, which means that the kernel hides them. */
SONDE_MUST_USE bool symbol_kallsyms_parse(const char *text, size_t len,
                                          struct symbol_collection *collection,
                                          struct symbol_core *core);

/* --- for tests -------------------------------------------------------------------------------- */

/* Adds the disjoint symbols that the overlay of all lines leaves. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err symbol_perf_map_parse(const char *text, size_t len,
                                               struct symbol_collection *collection);

#endif
