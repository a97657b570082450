/* SPDX-License-Identifier: Apache-2.0 */
#include "service/machine/aarch64/packed.h"

#define LAST_REGISTER 31u /* the stack pointer */

static bool is_by_pointer(const struct unwind_rule *rule) {
    return rule->cfa == UNWIND_CFA_RSP || rule->cfa == UNWIND_CFA_RBP;
}

/* Nearly every frame has a frame record: x29, and x30 behind it. */
uint64_t aarch64_hot(const struct unwind_rule *rule) {
    int16_t frame = rule->arm64.frame;
    bool has_record = frame < UNWIND_LOST && rule->arm64.link == frame + 1;
    if (is_by_pointer(rule) && !has_record)
        return UNWIND_HOT_WHOLE;
    return rule->cfa | (uint64_t)(uint16_t)frame << 16 | (uint64_t)(uint32_t)rule->cfa_offset << 32;
}

bool aarch64_rule_is_sane(const struct unwind_rule *rule) {
    return rule->cfa < UNWIND_CFA_COUNT && rule->cfa != UNWIND_CFA_PLT &&
           rule->cfa_register <= LAST_REGISTER && rule->arm64.reserved[0] == 0 &&
           rule->arm64.reserved[1] == 0;
}
