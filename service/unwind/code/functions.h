/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows for the code of a file that has no unwind information: Go's functions by Go's own table,
 * others by what their instructions do (analysis.h), and arm64's linkage tables. Functions are
 * known by the symbol table. Code without symbols has no rows; rows say there whether any of it
 * seems to keep frame pointers. Trampolines of signals are found by their instructions. Also, where
 * the kernel starts the file: the root of stacks. One thread. */
#ifndef SONDE_SERVICE_UNWIND_CODE_FUNCTIONS_H
#define SONDE_SERVICE_UNWIND_CODE_FUNCTIONS_H

#include "service/elf/go_table.h"
#include "service/unwind/table/rows.h"

#include <stdbool.h>

#define FUNCTIONS_MAX      (1u << 20)
#define FUNCTIONS_NO_ENTRY UINT32_MAX
#define FUNCTIONS_PLT      UINT32_MAX

struct functions {
    const struct elf_file *file;
    const struct machine *machine;
    uint64_t origin; /* vaddr of pc 0 */
    uint32_t entry;  /* the pc at which the kernel may start it, or FUNCTIONS_NO_ENTRY */
    uint32_t root;   /* the same, if it is a program */
    struct go_table go;
    struct function {
        uint32_t start, end; /* end == start: unknown */
        uint32_t go;         /* its number in Go's table + 1; 0; or FUNCTIONS_PLT: a whole .plt */
    } * items;               /* by start */
    uint32_t count, capacity;
    uint32_t found; /* by the last search */
    struct code_range {
        uint64_t start, end; /* from origin */
    } * ranges;              /* the file's code, by start, without overlaps */
    uint32_t range_count;
};

/* Which functions are known already: a bit for each FUNCTIONS_CELL bytes, set where one begins. */
#define FUNCTIONS_CELL 4u
struct functions_known {
    const uint64_t *bits;
    uint32_t limit; /* a bit per cell below this pc */
};

/* Leaves out those that are known. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err functions_collect(struct functions *functions, const struct elf_file *file,
                                           uint64_t origin, const struct functions_known *known);
void functions_finish(struct functions *functions);
/* Adds rows of the code in [from, to). context: the struct functions. */
void functions_fill(void *context, uint32_t from, uint32_t to, struct unwind_rows *rows);
/* Whether the trampoline to which handlers of signals return begins at pc. */
bool functions_is_trampoline(const struct functions *functions, uint32_t pc);
/* Its rule. */
struct unwind_rule functions_trampoline_rule(const struct functions *functions);
/* The same, for the code in [from, to) directly behind a function. context: likewise. */
bool functions_begin_with_trampoline(void *context, uint32_t from, uint32_t to);
/* What unwind information does not say of the function [start, end): returns the pc, `end` if none,
 * from which on its rule is *rule. The function at which the kernel starts the file is a root. In
 * Go programs (systemstack, mcall) the stack changes behind the first instruction that loads
 * rsp. */
uint32_t functions_find_change(void *context, uint32_t start, uint32_t end,
                               struct unwind_rule *rule);

#endif
