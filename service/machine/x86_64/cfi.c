/* SPDX-License-Identifier: Apache-2.0 */
#include "service/machine/x86_64/x86_64.h"

#include <string.h>

#define RBP          6u
#define RSP          7u
#define RIP          16u
#define UCONTEXT_RSP 160
#define UCONTEXT_RIP 168

/* Rewrites registers that are saved relative to rbp, for a CFA relative to rsp or rbp. If it is
 * relative to rbp, they are at a fixed offset from the CFA, too. If it is relative to rsp, the
 * function has released its frame and restored the registers, though the compiler left their rules
 * in place. */
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

static void copy(const struct cfi_state *state, struct unwind_rule *rule) {
    const struct cfi_rule *from = &state->rule;
    rule->cfa = from->cfa;
    rule->cfa_register = from->cfa_register;
    rule->cfa_add = from->cfa_add;
    rule->cfa_offset = from->cfa_offset;
    memcpy(rule->saved, from->saved, sizeof rule->saved);
    rule->from_rbp = state->from_frame;
}

static bool is_signal(const struct cfi_state *state) {
    const struct cfi_rule *rule = &state->rule;
    return state->address == CFI_IN_UCONTEXT && rule->cfa == UNWIND_CFA_DEREF &&
           rule->cfa_register == RSP && rule->cfa_add == 0 &&
           rule->cfa_offset - UCONTEXT_RSP == state->ucontext;
}

static bool settle(const struct cfi_state *state, struct unwind_rule *rule) {
    const struct cfi_rule *from = &state->rule;
    bool in_register = state->address == CFI_IN_REGISTER && from->cfa == UNWIND_CFA_RSP &&
                       !state->stack_moved && state->from_frame == 0;
    if (state->address == CFI_UNDEFINED) {
        rule->cfa = UNWIND_CFA_END;
    } else if (is_signal(state)) {
        rule->cfa = UNWIND_CFA_SIGNAL;
        rule->cfa_offset = state->ucontext;
    } else if (in_register) {
        copy(state, rule);
        rule->cfa = UNWIND_CFA_RETURN;
        rule->cfa_register = (uint8_t)state->ucontext;
    } else if (state->address != CFI_ORDINARY || state->stack_moved ||
               from->cfa == UNWIND_CFA_NONE) {
        rule->cfa_add = UNWIND_NONE_COMPLEX;
        return false;
    } else {
        copy(state, rule);
        if (rule->from_rbp != 0 && (rule->cfa == UNWIND_CFA_RSP || rule->cfa == UNWIND_CFA_RBP))
            settle_saved(rule);
    }
    return true;
}

/* Go saves no registers. */
static void settle_go(int64_t depth, struct unwind_rule *rule) {
    rule->cfa = UNWIND_CFA_RSP;
    rule->cfa_offset = (int32_t)depth + 8;
}

const struct cfi_machine x86_64_cfi = {
    .registers = 16,
    .stack = RSP,
    .frame = RBP,
    .return_address = RIP,
    .saved = {-1, -1,         -1,         UNWIND_RBX, -1,         -1, UNWIND_RBP, -1, -1, -1, -1,
              -1, UNWIND_R12, UNWIND_R13, UNWIND_R14, UNWIND_R15, -1, -1,         -1, -1, -1, -1,
              -1, -1,         -1,         -1,         -1,         -1, -1,         -1, -1, -1},
    .unit = 1,
    .is_return_on_stack = true,
    .saves_by_frame = true,
    .has_plt_rule = true,
    .pc_in_ucontext = UCONTEXT_RIP,
    .settle = settle,
    .settle_go = settle_go,
};
