/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of a file that may lack unwind information, by its symbol table, and their rows by
 * analysis; and the code at which the kernel starts the file, which is the root of stacks. Only
 * programs without an interpreter are looked at: static ones, and the C library musl, which is its
 * own interpreter. Elsewhere code without unwind information has frame pointers (V8, Go). One
 * thread. */
#ifndef SONDE_SERVICE_UNWIND_CODE_FUNCTIONS_H
#define SONDE_SERVICE_UNWIND_CODE_FUNCTIONS_H

#include "api/elf/elf.h"
#include "service/unwind/table/rows.h"

#include <stdbool.h>

#define FUNCTIONS_MAX      (1u << 20)
#define FUNCTIONS_NO_ENTRY UINT32_MAX

struct functions {
    const struct elf_file *file;
    uint64_t origin; /* vaddr of pc 0 */
    uint32_t entry;  /* the pc at which the kernel starts it, or FUNCTIONS_NO_ENTRY */
    bool is_go;
    struct function {
        uint32_t start, end; /* end == start: unknown */
    } * items;               /* by start */
    uint32_t count;
};

/* Leaves it empty if the file is of another kind or has no symbols. SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err functions_collect(struct functions *functions, const struct elf_file *file,
                                           uint64_t origin);
void functions_finish(struct functions *functions);
/* Adds rows of the functions in [from, to). context: the struct functions. */
void functions_fill(void *context, uint32_t from, uint32_t to, struct unwind_rows *rows);
/* Where a function of a Go program changes to another stack (systemstack, mcall): behind the first
 * instruction that loads rsp; `end` if nowhere. */
uint32_t functions_find_switch(void *context, uint32_t start, uint32_t end);

#endif
