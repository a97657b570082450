/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter of DWARF call frame instructions: one function's program in, rows out. It keeps
 * what a row can hold (CFA, the callee-saved registers, the return address) and notes what it
 * cannot; such rows become UNWIND_CFA_NONE. */
#ifndef SONDE_SERVICE_UNWIND_CFI_H
#define SONDE_SERVICE_UNWIND_CFI_H

#include "service/unwind/cursor.h"
#include "service/unwind/rows.h"

/* Where the bytes under the cursor are, for pointers that are relative to something. */
struct cfi_section {
    const uint8_t *data;
    size_t size;
    uint64_t vaddr;
    uint64_t text_vaddr, data_vaddr; /* bases of textrel and datarel; 0 = unknown */
    bool debug;                      /* .debug_frame rather than .eh_frame */
};

/* A pointer in a DW_EH_PE_* encoding; sets bad on the ones that need the process's memory. */
uint64_t unwind_cfi_pointer(struct cursor *cursor, uint8_t encoding,
                            const struct cfi_section *section);

enum cfi_address {
    CFI_AT_CFA_LESS_8, /* the usual return address */
    CFI_UNDEFINED,
    CFI_IN_UCONTEXT, /* an expression "rsp + number", as signal trampolines have */
    CFI_COMPLEX
};

/* The rules at one pc. Who changes them calls unwind_cfi_changed. */
struct cfi_state {
    struct unwind_rule rule; /* cfa NONE: none yet, or too complex */
    uint16_t number;         /* of the rule among the rows'; 0 = not looked up since it changed */
    bool is_initial;         /* the CIE's, unchanged */
    uint8_t address;         /* enum cfi_address: the return address */
    bool rsp_moved;          /* the caller's rsp is not the CFA */
    int32_t ucontext;        /* CFI_IN_UCONTEXT: where the ucontext is, from rsp */
};

static inline void unwind_cfi_changed(struct cfi_state *state) {
    state->number = 0;
    state->is_initial = false;
}

struct cfi_cie {
    uint32_t offset; /* in its section */
    uint8_t pointer_encoding;
    bool bad;   /* its functions are gaps */
    bool sized; /* augmentation data with their length ('z') */
    uint64_t code_align;
    int64_t data_align;
    struct cfi_state initial; /* with a number as soon as a function began with it */
};

/* Index in unwind_rule.saved of each DWARF register, -1 = not kept. */
extern const int8_t unwind_cfi_saved[16];

void unwind_cfi_state_init(struct cfi_state *state);

/* Runs a CIE's initial instructions into cie->initial; sets cie->bad. */
void unwind_cfi_run_initial(struct cfi_cie *cie, struct cursor instructions,
                            const struct cfi_section *section);
/* Runs a function's instructions and adds its rows for [start, end), offsets from rows->origin. On
 * a broken program the rows end there with a gap. */
void unwind_cfi_run(struct cfi_cie *cie, struct cursor instructions,
                    const struct cfi_section *section, uint32_t start, uint32_t end,
                    struct unwind_rows *rows);

/* What the expression block says, into state: the CFA, or where a register is saved. In
 * cfi_expression.c. */
void unwind_cfi_cfa_expression(struct cfi_state *state, struct cursor block);
void unwind_cfi_register_expression(struct cfi_state *state, uint64_t number, struct cursor block);

#endif
