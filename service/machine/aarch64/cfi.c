/* SPDX-License-Identifier: Apache-2.0
 *
 * A function stores x29 and x30 side by side, and x19 to x28 near them, however far the CFA is:
 *
 *     sp ──▶ x29 | x30 | x19 | x20 | ... | locals | CFA
 *
 * So a rule has the distance of the first two from the CFA, and that of the others from x29. A
 * signed x30 needs no rule of its own, because whoever uses an address strips the signature, which
 * changes nothing in an address without one. */
#include "service/machine/aarch64/aarch64.h"

#define X19 19u
#define X29 29u
#define X30 30u
#define SP  31u

/* Indexes in cfi_rule.saved. */
enum { FRAME, LINK, FIRST_NEAR };

static bool is_place(int16_t saved) {
    return saved < UNWIND_LOST;
}

static int8_t pack_near(int16_t saved, int16_t anchor) {
    int distance = saved - anchor;
    if (saved == UNWIND_SAME)
        return UNWIND_NEAR_SAME;
    return saved == UNWIND_LOST || distance == 0 || distance <= INT8_MIN || distance > INT8_MAX
               ? UNWIND_NEAR_LOST
               : (int8_t)distance;
}

static void pack(const struct cfi_rule *from, struct unwind_rule *rule) {
    int16_t frame = from->saved[FRAME], link = from->saved[LINK];
    int16_t anchor = is_place(frame) ? frame : is_place(link) ? link : 0;
    rule->cfa = from->cfa;
    rule->cfa_register = from->cfa_register;
    rule->cfa_add = from->cfa_add;
    rule->cfa_offset = from->cfa_offset;
    rule->arm64.frame = frame;
    rule->arm64.link = link;
    for (int i = 0; i < UNWIND_NEAR_COUNT; i++)
        rule->arm64.near[i] = pack_near(from->saved[FIRST_NEAR + i], anchor);
    rule->arm64.reserved[0] = rule->arm64.reserved[1] = 0;
}

static bool settle(const struct cfi_state *state, struct unwind_rule *rule) {
    const struct cfi_rule *from = &state->rule;
    bool in_register = state->address == CFI_IN_REGISTER && from->cfa == UNWIND_CFA_RSP;
    if (state->address == CFI_UNDEFINED) {
        rule->cfa = UNWIND_CFA_END;
        return true;
    }
    if (from->cfa == UNWIND_CFA_NONE || state->stack_moved ||
        (state->address != CFI_ORDINARY && !in_register)) {
        rule->cfa_add = UNWIND_NONE_COMPLEX;
        return false;
    }
    pack(from, rule);
    if (in_register) {
        rule->cfa = UNWIND_CFA_RETURN;
        rule->cfa_register = (uint8_t)state->ucontext;
    }
    return true;
}

/* Go stores x30 at the bottom of the frame, and x29 below it. */
static void settle_go(int64_t depth, struct unwind_rule *rule) {
    struct cfi_rule from = {
        .cfa = UNWIND_CFA_RSP, .cfa_register = SP, .cfa_offset = (int32_t)depth};
    for (uint32_t i = 0; i < CFI_SAVED_MAX; i++)
        from.saved[i] = UNWIND_SAME;
    if (depth > 0) {
        from.saved[LINK] = depth <= -8 * INT16_MIN - 8 ? (int16_t)(-depth / 8) : UNWIND_LOST;
        from.saved[FRAME] =
            is_place(from.saved[LINK]) ? (int16_t)(from.saved[LINK] - 1) : UNWIND_LOST;
    }
    pack(&from, rule);
}

/* An entry changes nothing; its header pushes x16 and x30. */
static void settle_plt(bool is_pushed, struct unwind_rule *rule) {
    settle_go(0, rule);
    if (!is_pushed)
        return;
    rule->cfa_offset = 16;
    rule->arm64.link = -1;
}

const struct cfi_machine aarch64_cfi = {
    .registers = 32,
    .stack = SP,
    .frame = X29,
    .return_address = X30,
    .saved = {-1,
              -1,
              -1,
              -1,
              -1,
              -1,
              -1,
              -1,
              -1,
              -1,
              -1,
              -1,
              -1,
              -1,
              -1,
              -1,
              -1,
              -1,
              -1,
              FIRST_NEAR,
              FIRST_NEAR + 1,
              FIRST_NEAR + 2,
              FIRST_NEAR + 3,
              FIRST_NEAR + 4,
              FIRST_NEAR + 5,
              FIRST_NEAR + 6,
              FIRST_NEAR + 7,
              FIRST_NEAR + 8,
              FIRST_NEAR + 9,
              FRAME,
              LINK,
              -1},
    .unit = 8,
    .signs_addresses = true,
    .settle = settle,
    .settle_go = settle_go,
    .settle_plt = settle_plt,
};
