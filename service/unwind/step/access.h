/* SPDX-License-Identifier: Apache-2.0
 *
 * What the interpreter of unwind rules asks, and what a step may find: step.h and the part of it
 * that each machine has (service/machine/own/step.h) share this. Signal-safe. */
#ifndef SONDE_SERVICE_UNWIND_STEP_ACCESS_H
#define SONDE_SERVICE_UNWIND_STEP_ACCESS_H

#include "service/machine/own/registers.h"
#include "service/unwind/table/table.h"

#include <stdbool.h>
#include <stddef.h>

#define UNWIND_INLINE static inline __attribute__((always_inline))

/* How a caller's frame was found. */
enum unwind_link { UNWIND_BY_RULE, UNWIND_BY_POINTER, UNWIND_BY_SIGNAL };

struct unwind_access {
    /* The rule for a pc, NULL if its code has no table. False: the pc is not in code; end here. */
    bool (*find_rule)(void *walk, uint64_t pc, const struct unwind_rule **rule);
    /* Whether a pc is in code; decides whether a frame pointer is plausible. */
    bool (*is_code)(void *walk, uint64_t pc);
    /* Reads the 8 bytes at an address of the stack. */
    bool (*load)(void *walk, uint64_t address, uint64_t *word);
    /* Whether a caller's frame may be at `place` if the callee's stack pointer is sp. `place` is
     * the address of the return address (rule), the address of the saved frame pointer and return
     * address (pointer), or the stack pointer of the interrupted code (signal). */
    bool (*may_follow)(void *walk, uint64_t sp, uint64_t place, enum unwind_link link);
    /* Whether a function whose stack pointer is sp may have saved a register at `place`. */
    bool (*may_save)(void *walk, uint64_t sp, uint64_t place);
};

enum unwind_step {
    UNWIND_STEP_CALLER,  /* the registers are the caller's, the pc is its return address */
    UNWIND_STEP_POINTER, /* the same, found by the frame pointer */
    UNWIND_STEP_EXACT,   /* the registers are those of interrupted code */
    UNWIND_STEP_NEEDS,   /* the rule needs a register that is not known */
    /* The walk ends. */
    UNWIND_STEP_ROOT,
    UNWIND_STEP_ENTRY, /* the root was entered by a return: its pc is exact */
    UNWIND_STEP_NO_CODE,
    UNWIND_STEP_NO_TABLE, /* no rule, and no plausible frame pointer */
    UNWIND_STEP_RULE,     /* a rule that no row can hold */
    UNWIND_STEP_BAD_STACK /* an address that cannot be read, or that no stack has there */
};

UNWIND_INLINE bool unwind_step_is_end(enum unwind_step step) {
    return step >= UNWIND_STEP_ROOT;
}

UNWIND_INLINE bool unwind_is_known(const struct unwind_registers *registers, uint32_t number) {
    return registers->known >> number & 1;
}

#endif
