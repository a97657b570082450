/* SPDX-License-Identifier: Apache-2.0
 *
 * The few forms of DWARF expressions that compilers, linkers and hand-written assembler use in CFI.
 * All others are too complex for a row. */
#include "service/unwind/cfi/cfi.h"

#define OP_DEREF       0x06
#define OP_CONST1U     0x08
#define OP_AND         0x1a
#define OP_PLUS        0x22
#define OP_PLUS_UCONST 0x23
#define OP_SHL         0x24
#define OP_GE          0x2a
#define OP_LIT0        0x30
#define OP_BREG0       0x70

#define RSP 7u

/* "breg N": a register and an offset. False if no rule can hold the offset. */
static bool take_breg(struct cursor *block, const struct cfi_machine *machine, uint8_t *number,
                      int64_t *offset) {
    if (cursor_left(block) == 0 || *block->at < OP_BREG0 ||
        *block->at >= OP_BREG0 + machine->registers)
        return false;
    *number = (uint8_t)(*block->at++ - OP_BREG0);
    *offset = cursor_sleb(block);
    return !block->failed && *offset >= INT32_MIN && *offset <= INT32_MAX;
}

static bool take_op(struct cursor *block, uint8_t op) {
    if (cursor_left(block) == 0 || *block->at != op)
        return false;
    block->at++;
    return true;
}

/* "+ n" in its two forms; the end of the block counts as + 0. */
static bool take_sum(struct cursor *block, int64_t *sum) {
    *sum = 0;
    if (cursor_left(block) == 0)
        return true;
    if (take_op(block, OP_PLUS_UCONST))
        *sum = (int64_t)cursor_uleb(block);
    else if (*block->at >= OP_LIT0 && *block->at < OP_LIT0 + 32) {
        *sum = *block->at++ - OP_LIT0;
        if (!take_op(block, OP_PLUS))
            return false;
    } else
        return false;
    return !block->failed && cursor_left(block) == 0 && *sum >= 0 && *sum <= INT16_MAX;
}

/* The rule of x86-64's linkers for all of .plt. The CFA is rsp + 8, and 8 more from byte n of an
 * entry's 16 bytes on, after its push: breg7 8, breg16 0, lit15, and, lit<n>, ge, lit3, shl,
 * plus. */
static bool is_plt(struct cursor block, int16_t *pushed_at) {
    static const uint8_t head[] = {OP_BREG0 + RSP, 8, OP_BREG0 + 16, 0, OP_LIT0 + 15, OP_AND};
    static const uint8_t tail[] = {OP_GE, OP_LIT0 + 3, OP_SHL, OP_PLUS};
    if (cursor_left(&block) != sizeof head + 1 + sizeof tail ||
        memcmp(block.at, head, sizeof head) != 0 ||
        memcmp(block.at + sizeof head + 1, tail, sizeof tail) != 0)
        return false;
    uint8_t literal = block.at[sizeof head];
    *pushed_at = (int16_t)(literal - OP_LIT0);
    return literal >= OP_LIT0 && literal <= OP_LIT0 + 15;
}

void unwind_cfi_cfa_expression(struct cfi_state *state, const struct cfi_machine *machine,
                               struct cursor block) {
    struct cfi_rule *rule = &state->rule;
    int64_t offset, sum;
    rule->cfa = UNWIND_CFA_NONE;
    rule->cfa_register = 0;
    rule->cfa_add = 0;
    rule->cfa_offset = 0;
    if (machine->has_plt_rule && is_plt(block, &rule->cfa_add)) {
        rule->cfa = UNWIND_CFA_PLT;
        return;
    }
    rule->cfa_add = 0;
    uint8_t number;
    if (!take_breg(&block, machine, &number, &offset))
        return;
    bool deref = take_op(&block, OP_DEREF);
    if (!take_sum(&block, &sum) || (!deref && offset + sum > INT32_MAX))
        return;
    rule->cfa_register = number;
    rule->cfa_offset = (int32_t)(deref ? offset : offset + sum);
    rule->cfa_add = (int16_t)(deref ? sum : 0);
    rule->cfa = deref                      ? UNWIND_CFA_DEREF
                : number == machine->stack ? UNWIND_CFA_RSP
                : number == machine->frame ? UNWIND_CFA_RBP
                                           : UNWIND_CFA_REG;
}

/* Only "breg N" is understood: the place where a register is saved, or, for a signal trampoline's
 * return address, the place in the ucontext. After any other expression the register stays lost. */
void unwind_cfi_register_expression(struct cfi_state *state, const struct cfi_machine *machine,
                                    uint64_t number, struct cursor block) {
    uint8_t base;
    int64_t offset;
    bool plain = take_breg(&block, machine, &base, &offset) && cursor_left(&block) == 0;
    int at = unwind_cfi_saved(machine, number);
    if (number == machine->stack)
        state->stack_moved = true;
    if (number == machine->return_address) {
        bool in_ucontext = machine->pc_in_ucontext && plain && base == machine->stack &&
                           offset > -4096 && offset < 4096;
        state->address = in_ucontext ? CFI_IN_UCONTEXT : CFI_COMPLEX;
        state->ucontext = (int16_t)(in_ucontext ? offset - machine->pc_in_ucontext : 0);
    }
    if (machine->saves_by_frame && at >= 0 && plain && base == machine->frame &&
        offset >= INT16_MIN && offset < UNWIND_LOST) {
        state->rule.saved[at] = (int16_t)offset;
        state->from_frame |= (uint8_t)(1u << at);
    }
}
