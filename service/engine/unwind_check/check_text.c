/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/unwind_check/check_text.h"

#include "service/engine/unwind_check/row_text.h"

static const char *const registers[] = {"rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp",
                                        "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};

static void put_cfa(struct row_text *text, const struct unwind_rule *rule) {
    const char *base = registers[rule->cfa_register % 16];
    switch ((enum unwind_cfa)rule->cfa) {
    case UNWIND_CFA_RSP:
        row_text_put(text, "cfa=rsp%+d", rule->cfa_offset);
        break;
    case UNWIND_CFA_RBP:
        row_text_put(text, "cfa=rbp%+d", rule->cfa_offset);
        break;
    case UNWIND_CFA_REG:
        row_text_put(text, "cfa=%s%+d", base, rule->cfa_offset);
        break;
    case UNWIND_CFA_DEREF:
        row_text_put(text, "cfa=*(%s%+d)%+d", base, rule->cfa_offset, rule->cfa_add);
        break;
    case UNWIND_CFA_PLT:
        row_text_put(text, "cfa=rsp+8, or +16 from byte %d of 16 on", rule->cfa_add);
        break;
    case UNWIND_CFA_RETURN:
        row_text_put(text, "cfa=rsp%+d ra=%s", rule->cfa_offset, base);
        break;
    default:
        break;
    }
}

static void put_saved(struct row_text *text, const struct unwind_rule *rule) {
    static const char *const names[UNWIND_SAVED_COUNT] = {"rbp", "rbx", "r12", "r13", "r14", "r15"};
    for (uint32_t i = 0; i < UNWIND_SAVED_COUNT; i++) {
        if (rule->saved[i] == UNWIND_LOST)
            row_text_put(text, " %s=?", names[i]);
        else if (rule->saved[i] != UNWIND_SAME)
            row_text_put(text, " %s=%s%+d", names[i], rule->from_rbp >> i & 1 ? "rbp" : "cfa",
                         rule->saved[i]);
    }
}

void check_rule_text(const struct unwind_rule *rule, char *text, size_t size) {
    static const char *const none[] = {
        [UNWIND_NONE_GAP] = "no row, by frame pointer",
        [UNWIND_NONE_COMPLEX] = "too complex for a row",
        [UNWIND_NONE_NO_POINTER] = "no row, no frame pointer",
        [UNWIND_NONE_PADDING] = "no row, padding",
    };
    struct row_text to = {text, size};
    text[0] = 0;
    if (!rule)
        row_text_put(&to, "no table, by frame pointer");
    else if (rule->cfa == UNWIND_CFA_NONE)
        row_text_put(&to, none[(uint16_t)rule->cfa_add % (UNWIND_NONE_PADDING + 1)]);
    else if (rule->cfa == UNWIND_CFA_END)
        row_text_put(&to, "root");
    else if (rule->cfa == UNWIND_CFA_SIGNAL)
        row_text_put(&to, "signal frame");
    if (rule && rule->cfa != UNWIND_CFA_NONE && rule->cfa != UNWIND_CFA_END &&
        rule->cfa != UNWIND_CFA_SIGNAL) {
        put_cfa(&to, rule);
        put_saved(&to, rule);
    }
}

const char *check_end_text(enum unwind_copy_end end) {
    static const char *const texts[UNWIND_COPY_ENDS] = {
        [UNWIND_COPY_ROOT] = "root",
        [UNWIND_COPY_DEPTH] = "too many frames",
        [UNWIND_COPY_NO_CODE] = "the return address is not in code",
        [UNWIND_COPY_NO_TABLE] = "no row and no plausible frame pointer",
        [UNWIND_COPY_RULE] = "the rule is too complex for a row",
        [UNWIND_COPY_BAD_STACK] = "an implausible address",
        [UNWIND_COPY_SHORT] = "the next frame is above the copy",
        [UNWIND_COPY_WAITS] = "the table is being built",
    };
    return texts[end];
}
