/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that the engine shares with the process that checks its unwinding: registers, copies
 * of stacks and our walks of them go in, one result for each stack comes out.
 *
 *     header | modules | stacks | results | pcs and copies of stacks
 *
 * The process gets it as descriptor CHECK_SHARED, and the file of module n as CHECK_FIRST_FILE + n.
 * The engine keeps its own copies of what it needs later, and trusts nothing in the results. */
#ifndef SONDE_SERVICE_ENGINE_UNWIND_CHECK_CHECK_FORMAT_H
#define SONDE_SERVICE_ENGINE_UNWIND_CHECK_CHECK_FORMAT_H

#include "service/machine/own/registers.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECK_MAGIC       0x6b6365686341646eull
#define CHECK_MAX_STACKS  10000u
#define CHECK_MAX_FRAMES  512u
#define CHECK_MAX_MODULES 256u
#define CHECK_ROW_BYTES   120u

enum { CHECK_SHARED = 3, CHECK_FIRST_FILE };

struct check_header {
    uint64_t magic, bytes; /* of the whole memory */
    uint32_t module_count, stack_count;
};

/* Executable mappings, by start. */
struct check_module {
    uint64_t start, end, bias; /* runtime address - ELF vaddr */
};

struct check_stack {
    uint64_t registers[UNWIND_REGISTERS];
    uint64_t stack_at, stack_bytes; /* offset in the memory */
    uint64_t pcs_at;                /* our walk: u64[count], without marks */
    uint32_t count;
    uint32_t is_whole; /* our walk did not end because pcs were full */
};

enum check_end {
    CHECK_ROOT = 0,
    CHECK_DEPTH,    /* CHECK_MAX_FRAMES */
    CHECK_SHORT,    /* a word that is not in the copy */
    CHECK_RED_ZONE, /* the same, below the first rsp, where only the live stack has it */
    CHECK_FAILED,
    CHECK_ENDS
};

struct check_result {
    uint32_t is_done;
    uint32_t count, equal;     /* frames; those that equal ours */
    uint32_t end;              /* enum check_end */
    uint32_t differs;          /* the callers of frame equal - 1 are different */
    uint32_t reserved;         /* 0 */
    uint64_t other;            /* pc of its caller; 0 = the walk ended */
    char row[CHECK_ROW_BYTES]; /* if they differ: what libunwind did at that frame */
};

static inline size_t check_modules_at(void) {
    return sizeof(struct check_header);
}
static inline size_t check_stacks_at(uint32_t modules) {
    return check_modules_at() + modules * sizeof(struct check_module);
}
static inline size_t check_results_at(uint32_t modules, uint32_t stacks) {
    return check_stacks_at(modules) + stacks * sizeof(struct check_stack);
}
static inline size_t check_bytes_at(uint32_t modules, uint32_t stacks) {
    return check_results_at(modules, stacks) + stacks * sizeof(struct check_result);
}

#endif
