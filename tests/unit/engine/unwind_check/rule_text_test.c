/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/unwind_check/check_text.h"
#include "tests/unit/check.h"

static struct unwind_rule rule(uint8_t cfa, uint8_t base, int32_t offset) {
    struct unwind_rule made = {.cfa = cfa, .cfa_register = base, .cfa_offset = offset};
    for (int i = 0; i < UNWIND_SAVED_COUNT; i++)
        made.saved[i] = UNWIND_SAME;
    return made;
}

static const char *text_of(struct unwind_rule of) {
    static char text[160];
    check_rule_text(&of, text, sizeof text);
    return text;
}

TEST(rules_read_like_rows) {
    char text[160];
    struct unwind_rule saves = rule(UNWIND_CFA_RSP, 0, 16);
    saves.saved[UNWIND_RBP] = -16;
    CHECK_STR(text_of(saves), "cfa=rsp+16 rbp=cfa-16");
    saves = rule(UNWIND_CFA_DEREF, 6, -8);
    saves.cfa_add = 16;
    saves.saved[UNWIND_RBX] = -24;
    saves.saved[UNWIND_R12] = UNWIND_LOST;
    saves.from_rbp = 1 << UNWIND_RBX;
    CHECK_STR(text_of(saves), "cfa=*(rbp-8)+16 rbx=rbp-24 r12=?");
    CHECK_STR(text_of(rule(UNWIND_CFA_RBP, 0, 16)), "cfa=rbp+16");
    CHECK_STR(text_of(rule(UNWIND_CFA_REG, 10, 8)), "cfa=r10+8");
    CHECK_STR(text_of(rule(UNWIND_CFA_RETURN, 5, 8)), "cfa=rsp+8 ra=rdi");
    CHECK_STR(text_of(rule(UNWIND_CFA_END, 0, 0)), "root");
    CHECK_STR(text_of(rule(UNWIND_CFA_SIGNAL, 0, 0)), "signal frame");
    CHECK_STR(text_of(rule(UNWIND_CFA_NONE, 0, 0)), "no row, by frame pointer");
    check_rule_text(NULL, text, sizeof text);
    CHECK_STR(text, "no table, by frame pointer");
    check_rule_text(&saves, text, 8);
    CHECK_STR(text, "cfa=*(r");
}
