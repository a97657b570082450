/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/cfi/cfi.h"

#define RSP 7u
#define RBP 6u
#define RIP 16u

/* An instruction that is being applied. */
struct machine {
    struct cfi_state *state;
    const struct cfi_cie *cie;
    struct cursor *code;
};

const int8_t unwind_cfi_saved[16] = {-1,         -1,         -1,         UNWIND_RBX, -1, -1,
                                     UNWIND_RBP, -1,         -1,         -1,         -1, -1,
                                     UNWIND_R12, UNWIND_R13, UNWIND_R14, UNWIND_R15};

void unwind_cfi_state_init(struct cfi_state *state, uint32_t kind) {
    memset(state, 0, sizeof *state);
    state->cie = kind;
    for (int i = 0; i < UNWIND_SAVED_COUNT; i++)
        state->rule.saved[i] = UNWIND_SAME;
    state->address = CFI_COMPLEX;
}

static uint64_t relative_base(struct cursor *cursor, uint8_t encoding,
                              const struct cfi_section *section) {
    switch (encoding & 0x70) {
    case 0x00:
        return 0;
    case 0x10:
        return section->vaddr + (uint64_t)(cursor->at - section->data);
    case 0x20:
        cursor->failed |= section->text_vaddr == 0;
        return section->text_vaddr;
    case 0x30:
        cursor->failed |= section->data_vaddr == 0;
        return section->data_vaddr;
    default:
        cursor->failed = true;
        return 0;
    }
}

uint64_t unwind_cfi_pointer(struct cursor *cursor, uint8_t encoding,
                            const struct cfi_section *section) {
    uint64_t base = relative_base(cursor, encoding, section);
    if (encoding & 0x80) /* indirect: the pointer is in the process's memory */
        cursor->failed = true;
    switch (encoding & 0x0f) {
    case 0x00:
    case 0x04:
    case 0x0c:
        return base + cursor_uint(cursor, 8);
    case 0x01:
        return base + cursor_uleb(cursor);
    case 0x02:
        return base + cursor_uint(cursor, 2);
    case 0x03:
        return base + cursor_uint(cursor, 4);
    case 0x09:
        return base + (uint64_t)cursor_sleb(cursor);
    case 0x0a:
        return base + (uint64_t)cursor_sint(cursor, 2);
    case 0x0b:
        return base + (uint64_t)cursor_sint(cursor, 4);
    default:
        cursor->failed = true;
        return 0;
    }
}

static void set_cfa(struct machine *machine, uint64_t number, int64_t offset) {
    struct unwind_rule *rule = &machine->state->rule;
    rule->cfa_register = 0;
    rule->cfa_add = 0;
    rule->cfa_offset = (int32_t)offset;
    if (number > 15 || offset != rule->cfa_offset) {
        rule->cfa = UNWIND_CFA_NONE;
        return;
    }
    rule->cfa_register = (uint8_t)number;
    rule->cfa = number == RSP ? UNWIND_CFA_RSP : number == RBP ? UNWIND_CFA_RBP : UNWIND_CFA_REG;
}

static bool cfa_is_register(const struct unwind_rule *rule) {
    return rule->cfa == UNWIND_CFA_RSP || rule->cfa == UNWIND_CFA_RBP ||
           rule->cfa == UNWIND_CFA_REG;
}

static void set_cfa_register(struct machine *machine, uint64_t number) {
    if (cfa_is_register(&machine->state->rule))
        set_cfa(machine, number, machine->state->rule.cfa_offset);
    else
        machine->state->rule.cfa = UNWIND_CFA_NONE;
}

static void set_cfa_offset(struct machine *machine, int64_t offset) {
    if (cfa_is_register(&machine->state->rule))
        set_cfa(machine, machine->state->rule.cfa_register, offset);
    else
        machine->state->rule.cfa = UNWIND_CFA_NONE;
}

/* offset: from the CFA, or UNWIND_SAME, UNWIND_LOST. */
static void set_saved(struct machine *machine, uint64_t number, int64_t offset) {
    struct unwind_rule *rule = &machine->state->rule;
    if (number < 16 && unwind_cfi_saved[number] >= 0) {
        int at = unwind_cfi_saved[number];
        bool fits = offset >= INT16_MIN && offset <= UNWIND_SAME;
        rule->saved[at] = fits ? (int16_t)offset : UNWIND_LOST;
        rule->from_rbp &= (uint8_t) ~(1u << at);
    } else if (number == RIP) {
        machine->state->address = offset == -8 ? CFI_AT_CFA_LESS_8 : CFI_COMPLEX;
    } else if (number == RSP) {
        machine->state->rsp_moved = offset != UNWIND_SAME;
    }
}

static void set_offset(struct machine *machine, uint64_t number, int64_t factored) {
    int64_t offset;
    if (__builtin_mul_overflow(factored, machine->cie->data_align, &offset) ||
        offset >= UNWIND_LOST)
        offset = UNWIND_LOST;
    set_saved(machine, number, offset);
}

static void set_undefined(struct machine *machine, uint64_t number) {
    set_saved(machine, number, UNWIND_LOST);
    if (number == RIP)
        machine->state->address = CFI_UNDEFINED;
}

/* The register's value is in another register. Rows have that only of the return address. */
static void set_register(struct machine *machine, uint64_t number, uint64_t other) {
    set_saved(machine, number, UNWIND_LOST);
    if (number == RIP && other < 16) {
        machine->state->address = CFI_IN_REGISTER;
        machine->state->ucontext = (int16_t)other;
    }
}

static void restore_register(struct machine *machine, uint64_t number) {
    const struct cfi_state *initial = &machine->cie->initial;
    if (number < 16 && unwind_cfi_saved[number] >= 0) {
        /* (No CIE saves a register relative to rbp.) */
        set_saved(machine, number, initial->rule.saved[unwind_cfi_saved[number]]);
    } else if (number == RIP) {
        machine->state->address = initial->address;
        machine->state->ucontext = initial->ucontext;
    } else if (number == RSP) {
        machine->state->rsp_moved = initial->rsp_moved;
    }
}

static struct cursor take_block(struct machine *machine) {
    uint64_t len = cursor_uleb(machine->code);
    const uint8_t *from = machine->code->at;
    cursor_skip(machine->code, len);
    return (struct cursor){from, machine->code->at, false};
}

/* The register's value is CFA + n, rather than saved there. No row can hold that, except that the
 * caller's rsp is CFA + 0, which is the default. */
static void set_value_offset(struct machine *machine, uint64_t number, int64_t factored) {
    set_saved(machine, number, UNWIND_LOST);
    if (number == RSP)
        machine->state->rsp_moved = factored != 0;
}

static void do_expression(struct machine *machine, bool is_value) {
    uint64_t number = cursor_uleb(machine->code);
    struct cursor block = take_block(machine);
    set_saved(machine, number, UNWIND_LOST);
    if (!is_value)
        unwind_cfi_register_expression(machine->state, number, block);
}

/* Applies instructions about registers. False if op is not one of them. */
static bool do_register_op(struct machine *machine, uint8_t op) {
    struct cursor *code = machine->code;
    uint64_t number;
    switch (op) {
    case OP_OFFSET_EXTENDED:
        number = cursor_uleb(code);
        set_offset(machine, number, (int64_t)cursor_uleb(code));
        return true;
    case OP_OFFSET_EXTENDED_SF:
        number = cursor_uleb(code);
        set_offset(machine, number, cursor_sleb(code));
        return true;
    case OP_GNU_NEGATIVE_OFFSET_EXTENDED:
        number = cursor_uleb(code);
        set_offset(machine, number, -(int64_t)(cursor_uleb(code) & INT32_MAX));
        return true;
    case OP_RESTORE_EXTENDED:
        restore_register(machine, cursor_uleb(code));
        return true;
    case OP_UNDEFINED:
        set_undefined(machine, cursor_uleb(code));
        return true;
    case OP_SAME_VALUE:
        set_saved(machine, cursor_uleb(code), UNWIND_SAME);
        return true;
    case OP_REGISTER:
        number = cursor_uleb(code);
        set_register(machine, number, cursor_uleb(code));
        return true;
    case OP_VAL_OFFSET:
        number = cursor_uleb(code);
        set_value_offset(machine, number, (int64_t)cursor_uleb(code));
        return true;
    case OP_VAL_OFFSET_SF:
        number = cursor_uleb(code);
        set_value_offset(machine, number, cursor_sleb(code));
        return true;
    case OP_EXPRESSION:
    case OP_VAL_EXPRESSION:
        do_expression(machine, op == OP_VAL_EXPRESSION);
        return true;
    case OP_GNU_ARGS_SIZE: /* (arguments on the stack; the CFA has them already) */
        cursor_uleb(code);
        return true;
    default:
        return false;
    }
}

/* Applies instructions about the CFA. False if op is not one of them. */
static bool do_cfa_op(struct machine *machine, uint8_t op) {
    struct cursor *code = machine->code;
    int64_t align = machine->cie->data_align, offset;
    uint64_t number;
    switch (op) {
    case OP_DEF_CFA:
        number = cursor_uleb(code);
        set_cfa(machine, number, (int64_t)cursor_uleb(code));
        return true;
    case OP_DEF_CFA_SF:
        number = cursor_uleb(code);
        if (__builtin_mul_overflow(cursor_sleb(code), align, &offset))
            offset = INT64_MAX;
        set_cfa(machine, number, offset);
        return true;
    case OP_DEF_CFA_REGISTER:
        set_cfa_register(machine, cursor_uleb(code));
        return true;
    case OP_DEF_CFA_OFFSET:
        set_cfa_offset(machine, (int64_t)cursor_uleb(code));
        return true;
    case OP_DEF_CFA_OFFSET_SF:
        if (__builtin_mul_overflow(cursor_sleb(code), align, &offset))
            offset = INT64_MAX;
        set_cfa_offset(machine, offset);
        return true;
    case OP_DEF_CFA_EXPRESSION:
        unwind_cfi_cfa_expression(machine->state, take_block(machine));
        return true;
    default:
        return false;
    }
}

bool unwind_cfi_apply(struct cfi_state *state, const struct cfi_cie *cie, uint8_t op,
                      struct cursor *code) {
    struct machine machine = {state, cie, code};
    if (op >> 6 == OP_OFFSET >> 6)
        set_offset(&machine, op & 0x3f, (int64_t)cursor_uleb(code));
    else if (op >> 6 == OP_RESTORE >> 6)
        restore_register(&machine, op & 0x3f);
    else
        return do_cfa_op(&machine, op) || do_register_op(&machine, op);
    return true;
}
