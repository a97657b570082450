/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/cfi/cfi.h"

/* An instruction that is being applied. */
struct machine {
    struct cfi_state *state;
    const struct cfi_cie *cie;
    struct cursor *code;
};

void unwind_cfi_state_init(struct cfi_state *state, const struct cfi_machine *machine,
                           uint32_t kind) {
    memset(state, 0, sizeof *state);
    state->cie = kind;
    for (uint32_t i = 0; i < CFI_SAVED_MAX; i++)
        state->rule.saved[i] = UNWIND_SAME;
    state->address = machine->is_return_on_stack ? CFI_COMPLEX : CFI_ORDINARY;
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
    const struct cfi_machine *known = machine->cie->machine;
    struct cfi_rule *rule = &machine->state->rule;
    rule->cfa_register = 0;
    rule->cfa_add = 0;
    rule->cfa_offset = (int32_t)offset;
    if (number >= known->registers || offset != rule->cfa_offset) {
        rule->cfa = UNWIND_CFA_NONE;
        return;
    }
    rule->cfa_register = (uint8_t)number;
    rule->cfa = number == known->stack   ? UNWIND_CFA_RSP
                : number == known->frame ? UNWIND_CFA_RBP
                                         : UNWIND_CFA_REG;
}

static bool cfa_is_register(const struct cfi_rule *rule) {
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

/* The return address is where a call or a register that is saved there leaves it, or a row cannot
 * hold it. */
static enum cfi_address address_of(const struct cfi_machine *known, int64_t saved) {
    bool is_ordinary = known->is_return_on_stack ? saved == -8 : saved != UNWIND_LOST;
    return is_ordinary ? CFI_ORDINARY : CFI_COMPLEX;
}

/* saved: units from the CFA, or UNWIND_SAME, UNWIND_LOST. */
static void set_saved(struct machine *machine, uint64_t number, int64_t saved) {
    const struct cfi_machine *known = machine->cie->machine;
    struct cfi_state *state = machine->state;
    int at = unwind_cfi_saved(known, number);
    if (at >= 0) {
        saved = saved >= INT16_MIN && saved <= UNWIND_SAME ? saved : UNWIND_LOST;
        state->rule.saved[at] = (int16_t)saved;
        state->from_frame &= (uint8_t) ~(1u << at);
    }
    if (number == known->return_address)
        state->address = address_of(known, saved);
    else if (number == known->stack)
        state->stack_moved = saved != UNWIND_SAME;
}

static void set_offset(struct machine *machine, uint64_t number, int64_t factored) {
    int64_t offset, unit = machine->cie->machine->unit;
    if (__builtin_mul_overflow(factored, machine->cie->data_align, &offset) || offset % unit != 0 ||
        offset / unit >= UNWIND_LOST)
        offset = UNWIND_LOST * unit;
    set_saved(machine, number, offset / unit);
}

static void set_undefined(struct machine *machine, uint64_t number) {
    set_saved(machine, number, UNWIND_LOST);
    if (number == machine->cie->machine->return_address)
        machine->state->address = CFI_UNDEFINED;
}

/* The register's value is in another register. Rows have that only of the return address. */
static void set_register(struct machine *machine, uint64_t number, uint64_t other) {
    const struct cfi_machine *known = machine->cie->machine;
    set_saved(machine, number, UNWIND_LOST);
    if (number == known->return_address && other < known->registers) {
        machine->state->address = CFI_IN_REGISTER;
        machine->state->ucontext = (int16_t)other;
    }
}

static void restore_register(struct machine *machine, uint64_t number) {
    const struct cfi_state *initial = &machine->cie->initial;
    const struct cfi_machine *known = machine->cie->machine;
    int at = unwind_cfi_saved(known, number);
    if (at >= 0) /* (No CIE saves a register relative to the frame pointer.) */
        set_saved(machine, number, initial->rule.saved[at]);
    if (number == known->return_address) {
        machine->state->address = initial->address;
        machine->state->ucontext = initial->ucontext;
    } else if (number == known->stack) {
        machine->state->stack_moved = initial->stack_moved;
    }
}

static struct cursor take_block(struct machine *machine) {
    uint64_t len = cursor_uleb(machine->code);
    const uint8_t *from = machine->code->at;
    cursor_skip(machine->code, len);
    return (struct cursor){from, machine->code->at, false};
}

/* The register's value is CFA + n, rather than saved there. No row can hold that, except that the
 * caller's stack pointer is CFA + 0, which is the default. */
static void set_value_offset(struct machine *machine, uint64_t number, int64_t factored) {
    set_saved(machine, number, UNWIND_LOST);
    if (number == machine->cie->machine->stack)
        machine->state->stack_moved = factored != 0;
}

static void do_expression(struct machine *machine, bool is_value) {
    uint64_t number = cursor_uleb(machine->code);
    struct cursor block = take_block(machine);
    set_saved(machine, number, UNWIND_LOST);
    if (!is_value)
        unwind_cfi_register_expression(machine->state, machine->cie->machine, number, block);
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
    case OP_NEGATE_RA_STATE:
    case OP_NEGATE_RA_STATE_WITH_PC:
        return machine->cie->machine->signs_addresses;
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
        unwind_cfi_cfa_expression(machine->state, machine->cie->machine, take_block(machine));
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
