/* SPDX-License-Identifier: Apache-2.0
 *
 * The files behind a process's mappings, with their unwind and symbol tables. */
#ifndef SONDE_SERVICE_ENGINE_CODE_TABLES_H
#define SONDE_SERVICE_ENGINE_CODE_TABLES_H

#include "service/engine/core/target.h"

#include <elf.h>

/* --- tables.c: a worker */

/* The present executable mappings of a process. Those that equal a mapping of `known` (may be NULL)
 * are that object. NULL when the mappings cannot be read, or the process is no longer the one that
 * connected. */
struct generation *tables_read_maps(const struct process_identity *process,
                                    const struct generation *known);
/* Fills in the module and the bias of a mapping, unless it has them. The mapping may be a guest's
 * claim: files are opened with the rights of the process. */
void tables_open_mapping(struct engine *engine, const struct process_identity *process,
                         struct mapping *mapping);
/* What the unwind table of a module that has a file is built from, and the key of that table. */
struct table_source {
    int fd, debug_fd; /* debug_fd: only if it has a .debug_frame that the file lacks; else -1 */
    char identity[FILE_IDENTITY_MAX];
};
/* False if the module has no file. */
bool tables_source(const struct symbol_module *module, struct table_source *source);
/* Returns the unwind table of a module, and compiles it if it is not cached. The caller closes
 * *memfd. SONDE_NOT_AVAILABLE: the module has no unwind information. */
SONDE_MUST_USE sonde_err tables_get(struct engine *engine, const struct symbol_module *module,
                                    int *memfd, size_t *bytes, struct sonde_diag *diag);
/* The size of the vdso, which starts with this header. */
size_t tables_vdso_bytes(const Elf64_Ehdr *header);

/* --- load_names.c: the engine thread */

/* Loads the symbol tables of all mappings that were sampled. True when each is loaded or is known
 * to be missing. Mappings that are not open yet are left for the next call. */
bool tables_load_names(struct target *target, struct stacks *stacks);
/* The same for one open mapping. */
void tables_load_mapping_names(struct target *target, struct mapping *mapping);
/* True while a line table (inlined functions, files, lines) for one of them is being built. */
bool tables_are_converting(const struct stacks *stacks);

#endif
