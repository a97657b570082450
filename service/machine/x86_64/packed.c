/* SPDX-License-Identifier: Apache-2.0 */
#include "service/machine/x86_64/packed.h"

#define LAST_REGISTER 15u

uint64_t x86_64_hot(const struct unwind_rule *rule) {
    return unwind_rule_hot(rule);
}

static bool is_by_pointer(uint8_t cfa) {
    return cfa == UNWIND_CFA_RSP || cfa == UNWIND_CFA_RBP;
}

bool x86_64_rule_is_sane(const struct unwind_rule *rule) {
    return rule->cfa < UNWIND_CFA_COUNT && rule->cfa_register <= LAST_REGISTER &&
           rule->from_rbp >> UNWIND_SAVED_COUNT == 0 &&
           (rule->from_rbp == 0 || !is_by_pointer(rule->cfa)) && rule->reserved[0] == 0 &&
           rule->reserved[1] == 0 && rule->reserved[2] == 0;
}
