/* SPDX-License-Identifier: Apache-2.0
 *
 * The effect of one DWARF call frame instruction on the rules at a pc. The state has what a row can
 * hold (CFA, callee-saved registers, return address) and flags for what it cannot; a row with such
 * a flag becomes UNWIND_CFA_NONE. service/machine knows the registers. cfi_program.h runs whole
 * programs. */
#ifndef SONDE_SERVICE_UNWIND_CFI_CFI_H
#define SONDE_SERVICE_UNWIND_CFI_CFI_H

#include "service/elf/cursor.h"
#include "service/machine/cfi_machine.h"
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
    OP_NEGATE_RA_STATE_WITH_PC = 0x2c, /* of arm64, as the next */
    OP_NEGATE_RA_STATE,
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

struct cfi_cie {
    uint32_t offset; /* in its section */
    uint8_t pointer_encoding;
    bool bad;   /* unusable: its functions become gaps */
    bool sized; /* has augmentation data with a length ('z') */
    uint64_t code_align;
    int64_t data_align;
    const struct cfi_machine *machine;
    struct cfi_state initial;
    uint32_t kind;  /* instructions have the same effect under CIEs of one kind */
    uint32_t epoch; /* epoch of the memo (cfi_memo.h) in which `id` names `initial` */
    uint32_t id;
};

/* Sets the state before any instruction, under CIEs of this kind. */
void unwind_cfi_state_init(struct cfi_state *state, const struct cfi_machine *machine,
                           uint32_t kind);
/* The index of a DWARF register in cfi_rule.saved; -1 if rules do not have it. */
static inline int unwind_cfi_saved(const struct cfi_machine *machine, uint64_t number) {
    return number < CFI_REGISTERS_MAX ? machine->saved[number] : -1;
}

/* Applies an instruction, whose operands are at code, to a state. False if op does not change
 * states or is unknown. Operands that end too early set code->failed. */
bool unwind_cfi_apply(struct cfi_state *state, const struct cfi_cie *cie, uint8_t op,
                      struct cursor *code);

/* Apply an expression: to the CFA, or to where a register is saved. In cfi_expression.c. */
void unwind_cfi_cfa_expression(struct cfi_state *state, const struct cfi_machine *machine,
                               struct cursor block);
void unwind_cfi_register_expression(struct cfi_state *state, const struct cfi_machine *machine,
                                    uint64_t number, struct cursor block);

#endif
