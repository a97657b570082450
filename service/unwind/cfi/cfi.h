/* SPDX-License-Identifier: Apache-2.0
 *
 * The effect of one DWARF call frame instruction on the rules at a pc. The state has what a row can
 * hold (CFA, callee-saved registers, return address) and flags for what it cannot; a row with such
 * a flag becomes UNWIND_CFA_NONE. cfi_program.h runs whole programs. */
#ifndef SONDE_SERVICE_UNWIND_CFI_CFI_H
#define SONDE_SERVICE_UNWIND_CFI_CFI_H

#include "service/elf/cursor.h"
#include "service/unwind/table/rows.h"

/* A section with call frame information, and the addresses that its pointers are relative to. */
struct cfi_section {
    const uint8_t *data;
    size_t size;
    uint64_t vaddr;
    uint64_t text_vaddr, data_vaddr; /* bases of DW_EH_PE_textrel and datarel; 0 = unknown */
    bool debug;                      /* .debug_frame rather than .eh_frame */
};

/* Call frame instructions. The low six bits of the last three are an operand. */
enum cfi_op {
    OP_NOP = 0x00,
    OP_SET_LOC,
    OP_ADVANCE_LOC1,
    OP_ADVANCE_LOC2,
    OP_ADVANCE_LOC4,
    OP_OFFSET_EXTENDED,
    OP_RESTORE_EXTENDED,
    OP_UNDEFINED,
    OP_SAME_VALUE,
    OP_REGISTER,
    OP_REMEMBER_STATE,
    OP_RESTORE_STATE,
    OP_DEF_CFA,
    OP_DEF_CFA_REGISTER,
    OP_DEF_CFA_OFFSET,
    OP_DEF_CFA_EXPRESSION,
    OP_EXPRESSION,
    OP_OFFSET_EXTENDED_SF,
    OP_DEF_CFA_SF,
    OP_DEF_CFA_OFFSET_SF,
    OP_VAL_OFFSET,
    OP_VAL_OFFSET_SF,
    OP_VAL_EXPRESSION,
    OP_ADVANCE_LOC8 = 0x1d,
    OP_GNU_ARGS_SIZE = 0x2e,
    OP_GNU_NEGATIVE_OFFSET_EXTENDED,
    OP_ADVANCE_LOC = 0x40,
    OP_OFFSET = 0x80,
    OP_RESTORE = 0xc0
};

/* Reads a pointer in a DW_EH_PE_* encoding. Indirect ones, which need the process's memory, set
 * cursor->failed. */
uint64_t unwind_cfi_pointer(struct cursor *cursor, uint8_t encoding,
                            const struct cfi_section *section);

enum cfi_address {
    CFI_AT_CFA_LESS_8, /* the usual return address */
    CFI_UNDEFINED,
    CFI_IN_UCONTEXT, /* at rsp + number, by an expression: a signal trampoline */
    CFI_IN_REGISTER, /* as in vfork, whose caller's frame the child changes */
    CFI_COMPLEX
};

/* The rules at one pc. Equal states have equal bytes. */
struct cfi_state {
    struct unwind_rule rule; /* cfa NONE: not defined yet, or too complex */
    uint32_t cie;            /* cfi_cie.kind, whose initial rules "restore" brings back */
    int16_t ucontext;        /* CFI_IN_UCONTEXT: offset from rsp; CFI_IN_REGISTER: its number */
    uint8_t address;         /* enum cfi_address: the return address */
    uint8_t rsp_moved;       /* the caller's rsp is not the CFA */
};

struct cfi_cie {
    uint32_t offset; /* in its section */
    uint8_t pointer_encoding;
    bool bad;   /* unusable: its functions become gaps */
    bool sized; /* has augmentation data with a length ('z') */
    uint64_t code_align;
    int64_t data_align;
    struct cfi_state initial;
    uint32_t kind;  /* instructions have the same effect under CIEs of one kind */
    uint32_t epoch; /* epoch of the memo (cfi_memo.h) in which `id` names `initial` */
    uint32_t id;
};

/* Index in unwind_rule.saved of each DWARF register; -1 = rules do not have it. */
extern const int8_t unwind_cfi_saved[16];

/* Sets the state before any instruction, under CIEs of this kind. */
void unwind_cfi_state_init(struct cfi_state *state, uint32_t kind);

/* Applies an instruction, whose operands are at code, to a state. False if op does not change
 * states or is unknown. Operands that end too early set code->failed. */
bool unwind_cfi_apply(struct cfi_state *state, const struct cfi_cie *cie, uint8_t op,
                      struct cursor *code);

/* Apply an expression: to the CFA, or to where a register is saved. In cfi_expression.c. */
void unwind_cfi_cfa_expression(struct cfi_state *state, struct cursor block);
void unwind_cfi_register_expression(struct cfi_state *state, uint64_t number, struct cursor block);

#endif
