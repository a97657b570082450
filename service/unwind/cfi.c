/* SPDX-License-Identifier: Apache-2.0 */
#include "service/unwind/cfi.h"

#define REMEMBERED 16 /* compilers nest one deep, hand-written assembler two or three */

#define RSP          7u
#define RBP          6u
#define RIP          16u
#define UCONTEXT_RSP 160

enum {
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
    OP_GNU_NEGATIVE_OFFSET_EXTENDED
};

struct machine {
    struct cfi_cie *cie;
    const struct cfi_section *section;
    struct cursor code;
    struct cfi_state state;
    struct cfi_state remembered[REMEMBERED];
    uint32_t remembered_count;
    uint32_t pc, end;
    struct unwind_rows *rows; /* NULL while initial instructions run: no rows */
    bool broken;
};

const int8_t unwind_cfi_saved[16] = {-1,         -1,         -1,         UNWIND_RBX, -1, -1,
                                     UNWIND_RBP, -1,         -1,         -1,         -1, -1,
                                     UNWIND_R12, UNWIND_R13, UNWIND_R14, UNWIND_R15};

void unwind_cfi_state_init(struct cfi_state *state) {
    memset(state, 0, sizeof *state);
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
        cursor->bad |= section->text_vaddr == 0;
        return section->text_vaddr;
    case 0x30:
        cursor->bad |= section->data_vaddr == 0;
        return section->data_vaddr;
    default:
        cursor->bad = true;
        return 0;
    }
}

uint64_t unwind_cfi_pointer(struct cursor *cursor, uint8_t encoding,
                            const struct cfi_section *section) {
    uint64_t base = relative_base(cursor, encoding, section);
    if (encoding & 0x80) /* indirect: the address stands in the process */
        cursor->bad = true;
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
        cursor->bad = true;
        return 0;
    }
}

/* Registers saved from rbp, under a CFA of the simple kinds. From rbp + n it is the same as from
 * the CFA. From rsp: the function has put its frame away and is about to return; compilers leave
 * the rules standing though the registers are back. */
static void settle_saved(struct unwind_rule *rule) {
    for (int i = 0; i < UNWIND_SAVED_COUNT; i++) {
        if (!(rule->from_rbp >> i & 1))
            continue;
        int64_t offset = (int64_t)rule->saved[i] - rule->cfa_offset;
        if (rule->cfa == UNWIND_CFA_RSP)
            rule->saved[i] = UNWIND_SAME;
        else
            rule->saved[i] =
                offset >= INT16_MIN && offset < UNWIND_LOST ? (int16_t)offset : UNWIND_LOST;
    }
    rule->from_rbp = 0;
}

/* The row of a state that is not of the plain kind: what cannot be held becomes NONE. */
static __attribute__((noinline)) void emit_rare(struct machine *machine) {
    const struct cfi_state *state = &machine->state;
    struct unwind_rule rule = state->rule;
    if (state->address == CFI_UNDEFINED) {
        rule = machine->rows->rules[1];
    } else if (state->address == CFI_IN_UCONTEXT && rule.cfa == UNWIND_CFA_DEREF &&
               rule.cfa_register == RSP && rule.cfa_add == 0 &&
               rule.cfa_offset - UCONTEXT_RSP == state->ucontext) {
        rule = machine->rows->rules[0];
        rule.cfa = UNWIND_CFA_SIGNAL;
        rule.cfa_offset = state->ucontext;
    } else if (state->address != CFI_AT_CFA_LESS_8 || state->rsp_moved ||
               rule.cfa == UNWIND_CFA_NONE) {
        machine->rows->complex_rows++;
        rule = machine->rows->rules[0];
        rule.cfa_add = UNWIND_NONE_COMPLEX;
    } else if (rule.from_rbp != 0 && (rule.cfa == UNWIND_CFA_RSP || rule.cfa == UNWIND_CFA_RBP)) {
        settle_saved(&rule);
    }
    unwind_rows_add(machine->rows, machine->pc, &rule);
}

static void emit(struct machine *machine) {
    struct cfi_state *state = &machine->state;
    if (!machine->rows)
        return;
    if (state->number == 0) {
        if (state->address != CFI_AT_CFA_LESS_8 || state->rsp_moved ||
            state->rule.cfa == UNWIND_CFA_NONE || state->rule.from_rbp != 0) {
            emit_rare(machine);
            return;
        }
        state->number = unwind_rows_rule(machine->rows, &state->rule);
        if (state->is_initial)
            machine->cie->initial.number = state->number;
    }
    unwind_rows_put(machine->rows, machine->pc, state->number);
}

static void advance_to(struct machine *machine, uint64_t pc) {
    if (pc < machine->pc) {
        machine->broken = true;
        return;
    }
    if (pc > machine->pc)
        emit(machine);
    machine->pc = pc < machine->end ? (uint32_t)pc : machine->end;
}

static void advance(struct machine *machine, uint64_t delta) {
    uint64_t by = delta, align = machine->cie->code_align;
    if (align != 1 && (__builtin_mul_overflow(delta, align, &by) || by > UINT32_MAX))
        by = UINT32_MAX;
    advance_to(machine, machine->pc + by);
}

static void set_cfa(struct machine *machine, uint64_t number, int64_t offset) {
    struct unwind_rule *rule = &machine->state.rule;
    unwind_cfi_changed(&machine->state);
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
    unwind_cfi_changed(&machine->state);
    if (cfa_is_register(&machine->state.rule))
        set_cfa(machine, number, machine->state.rule.cfa_offset);
    else
        machine->state.rule.cfa = UNWIND_CFA_NONE;
}

static void set_cfa_offset(struct machine *machine, int64_t offset) {
    unwind_cfi_changed(&machine->state);
    if (cfa_is_register(&machine->state.rule))
        set_cfa(machine, machine->state.rule.cfa_register, offset);
    else
        machine->state.rule.cfa = UNWIND_CFA_NONE;
}

/* offset: from the CFA, or UNWIND_SAME, UNWIND_LOST. */
static void set_saved(struct machine *machine, uint64_t number, int64_t offset) {
    struct unwind_rule *rule = &machine->state.rule;
    unwind_cfi_changed(&machine->state);
    if (number < 16 && unwind_cfi_saved[number] >= 0) {
        int at = unwind_cfi_saved[number];
        bool fits = offset >= INT16_MIN && offset <= UNWIND_SAME;
        rule->saved[at] = fits ? (int16_t)offset : UNWIND_LOST;
        rule->from_rbp &= (uint8_t) ~(1u << at);
    } else if (number == RIP) {
        machine->state.address = offset == -8 ? CFI_AT_CFA_LESS_8 : CFI_COMPLEX;
    } else if (number == RSP) {
        machine->state.rsp_moved = offset != UNWIND_SAME;
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
        machine->state.address = CFI_UNDEFINED;
}

static void restore_register(struct machine *machine, uint64_t number) {
    const struct cfi_state *initial = &machine->cie->initial;
    unwind_cfi_changed(&machine->state);
    if (number < 16 && unwind_cfi_saved[number] >= 0) {
        /* (No CIE has anything saved from rbp.) */
        set_saved(machine, number, initial->rule.saved[unwind_cfi_saved[number]]);
    } else if (number == RIP) {
        machine->state.address = initial->address;
        machine->state.ucontext = initial->ucontext;
    } else if (number == RSP) {
        machine->state.rsp_moved = initial->rsp_moved;
    }
}

static void remember(struct machine *machine) {
    if (machine->remembered_count == REMEMBERED)
        machine->broken = true;
    else
        machine->remembered[machine->remembered_count++] = machine->state;
}

static void recall(struct machine *machine) {
    if (machine->remembered_count == 0)
        machine->broken = true;
    else
        machine->state = machine->remembered[--machine->remembered_count];
}

static struct cursor take_block(struct machine *machine) {
    uint64_t len = cursor_uleb(&machine->code);
    const uint8_t *from = machine->code.at;
    cursor_skip(&machine->code, len);
    return (struct cursor){from, machine->code.at, false};
}

/* A value rather than a place: no row can hold that, save "the caller's rsp is CFA + 0", which is
 * so anyway. */
static void set_value_offset(struct machine *machine, uint64_t number, int64_t factored) {
    set_saved(machine, number, UNWIND_LOST);
    if (number == RSP)
        machine->state.rsp_moved = factored != 0;
}

static void do_expression(struct machine *machine, bool is_value) {
    uint64_t number = cursor_uleb(&machine->code);
    struct cursor block = take_block(machine);
    set_saved(machine, number, UNWIND_LOST);
    if (!is_value)
        unwind_cfi_register_expression(&machine->state, number, block);
}

/* Instructions that say where registers are. False when op is none of them. */
static bool do_register_op(struct machine *machine, uint8_t op) {
    struct cursor *code = &machine->code;
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
        set_saved(machine, cursor_uleb(code), UNWIND_LOST);
        cursor_uleb(code);
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
    default:
        return false;
    }
}

/* Instructions that say what the CFA is. False when op is none of them. */
static bool do_cfa_op(struct machine *machine, uint8_t op) {
    struct cursor *code = &machine->code;
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
        unwind_cfi_cfa_expression(&machine->state, take_block(machine));
        return true;
    default:
        return false;
    }
}

/* The rest: locations and the stack of states. */
static void do_other_op(struct machine *machine, uint8_t op) {
    struct cursor *code = &machine->code;
    switch (op) {
    case OP_ADVANCE_LOC1:
        advance(machine, cursor_uint(code, 1));
        return;
    case OP_REMEMBER_STATE:
        remember(machine);
        return;
    case OP_RESTORE_STATE:
        recall(machine);
        return;
    case OP_SET_LOC:
        advance_to(machine,
                   unwind_cfi_pointer(code, machine->cie->pointer_encoding, machine->section) -
                       (machine->rows ? machine->rows->origin : 0));
        return;
    case OP_ADVANCE_LOC2:
        advance(machine, cursor_uint(code, 2));
        return;
    case OP_ADVANCE_LOC4:
        advance(machine, cursor_uint(code, 4));
        return;
    case OP_ADVANCE_LOC8:
        advance(machine, cursor_uint(code, 8));
        return;
    case OP_GNU_ARGS_SIZE:
        cursor_uleb(code);
        return;
    default:
        machine->broken = true;
    }
}

/* The common instructions whose numbers take one byte each: nearly all programs are made of them.
 * at is behind op. False: it is another one, and nothing was done. */
static inline __attribute__((always_inline)) bool
run_common(struct machine *machine, uint8_t op, const uint8_t **at, const uint8_t *end) {
    uint8_t low = op & 0x3f, number = *at < end ? **at : 0xff;
    switch (op >> 6) {
    case 1:
        advance(machine, low);
        return true;
    case 2:
        *at += number < 0x80;
        if (number < 0x80)
            set_offset(machine, low, number);
        return number < 0x80;
    case 3:
        restore_register(machine, low);
        return true;
    }
    if (op == OP_NOP)
        return true;
    if (op != OP_DEF_CFA_OFFSET || number >= 0x80)
        return false;
    set_cfa_offset(machine, number);
    ++*at;
    return true;
}

static void run(struct machine *machine) {
    struct cursor *code = &machine->code;
    const uint8_t *at = code->at, *const end = code->end;
    while (at < end && machine->pc < machine->end && !machine->broken) {
        uint8_t op = *at++;
        if (run_common(machine, op, &at, end))
            continue;
        code->at = at;
        if (op >> 6 == 2)
            set_offset(machine, op & 0x3f, (int64_t)cursor_uleb(code));
        else if (!do_cfa_op(machine, op) && !do_register_op(machine, op))
            do_other_op(machine, op);
        at = code->at;
    }
    machine->broken |= code->bad;
}

void unwind_cfi_run_initial(struct cfi_cie *cie, struct cursor instructions,
                            const struct cfi_section *section) {
    struct machine machine = {.cie = cie, .section = section, .code = instructions, .end = 1};
    unwind_cfi_state_init(&machine.state);
    cie->initial = machine.state;
    run(&machine);
    cie->initial = machine.state;
    cie->initial.is_initial = true;
    cie->bad |= machine.broken;
}

void unwind_cfi_run(struct cfi_cie *cie, struct cursor instructions,
                    const struct cfi_section *section, uint32_t start, uint32_t end,
                    struct unwind_rows *rows) {
    struct machine machine;
    machine.cie = cie;
    machine.section = section;
    machine.code = instructions;
    machine.state = cie->initial;
    machine.remembered_count = 0;
    machine.pc = start;
    machine.end = end;
    machine.rows = rows;
    machine.broken = false;
    run(&machine);
    if (machine.broken) {
        rows->complex_rows++;
        unwind_rows_gap(rows, machine.pc);
    } else if (machine.pc < end) {
        emit(&machine);
    }
}
