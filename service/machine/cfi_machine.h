/* SPDX-License-Identifier: Apache-2.0
 *
 * Call frame information of each machine: which register has which number, and how the state that
 * its instructions lead to becomes a rule of an unwind table. service/unwind/cfi interprets the
 * instructions, which are nearly the same everywhere. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_CFI_MACHINE_H
#define SONDE_SERVICE_MACHINE_CFI_MACHINE_H

#include "service/unwind/table/table.h"

#include <stdbool.h>

#define CFI_SAVED_MAX     12u
#define CFI_REGISTERS_MAX 32u

enum cfi_address {
    CFI_ORDINARY, /* where x86-64 always has it, or saved as any register of arm64 */
    CFI_UNDEFINED,
    CFI_IN_UCONTEXT, /* at the stack pointer + number, by an expression: a signal trampoline */
    CFI_IN_REGISTER, /* as in vfork, whose caller's frame the child changes */
    CFI_COMPLEX
};

/* The CFA is as in unwind_rule. saved: offsets from it in units of cfi_machine.unit, or UNWIND_SAME
 * or UNWIND_LOST, in the order of cfi_machine.saved. */
struct cfi_rule {
    uint8_t cfa, cfa_register;
    int16_t cfa_add;
    int32_t cfa_offset;
    int16_t saved[CFI_SAVED_MAX];
};

/* The rules at one pc. Equal states have equal bytes. */
struct cfi_state {
    struct cfi_rule rule;    /* cfa NONE: not defined yet, or too complex */
    uint32_t cie;            /* cfi_cie.kind, whose initial rules "restore" brings back */
    int16_t ucontext;        /* CFI_IN_UCONTEXT: offset from the stack pointer; CFI_IN_REGISTER: its
                             number */
    uint8_t from_frame;      /* bit i: saved[i] is relative to the frame pointer */
    uint8_t address : 4;     /* enum cfi_address: the return address */
    uint8_t stack_moved : 4; /* the caller's stack pointer is not the CFA */
};

struct cfi_machine {
    /* DWARF numbers. return_address is the column that CIEs name. */
    uint8_t registers, stack, frame, return_address;
    int8_t saved[CFI_REGISTERS_MAX]; /* of each register: its index in cfi_rule.saved; -1 = none */
    uint8_t unit;                    /* bytes */
    /* A call stores the return address at CFA - 8, and no rule puts it elsewhere. Otherwise it is
     * one of `saved`, unchanged until the function stores it. */
    bool is_return_on_stack;
    bool signs_addresses;   /* with instructions 0x2c and 0x2d, which change no rule */
    bool saves_by_frame;    /* rules can have registers saved relative to the frame pointer */
    bool has_plt_rule;      /* the linker has one expression for all entries of .plt */
    int16_t pc_in_ucontext; /* of the interrupted pc, where an expression can name it */
    /* Makes the rule of a state; *rule is UNWIND_CFA_NONE before. False, with the reason
     * UNWIND_NONE_COMPLEX, if no rule can hold it. */
    bool (*settle)(const struct cfi_state *state, struct unwind_rule *rule);
    /* Makes the rule of a Go function whose stack pointer is `depth` bytes below the caller's,
     * without what Go's call instruction pushes. */
    void (*settle_go)(int64_t depth, struct unwind_rule *rule);
    /* Makes the rule of an entry of the linkage table, or of its header behind machine.h's
     * find_plt_push; NULL where that is. */
    void (*settle_plt)(bool is_pushed, struct unwind_rule *rule);
};

#endif
