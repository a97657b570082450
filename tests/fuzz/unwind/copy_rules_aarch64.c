/* SPDX-License-Identifier: Apache-2.0
 *
 * Every third rule has a frame record, and others lose a register or store x30 only. */
#include "tests/fuzz/unwind/copy_rules.h"

#include <elf.h>

const uint32_t fuzz_machine = EM_AARCH64;

void fuzz_set_saved(uint32_t i, struct unwind_rule *rule) {
    static const int16_t frames[] = {-4, UNWIND_SAME, UNWIND_SAME, -2, UNWIND_LOST, -3};
    static const int16_t links[] = {-3, UNWIND_SAME, -2, -1, -4, UNWIND_LOST};
    if (rule->cfa == UNWIND_CFA_PLT)
        rule->cfa = UNWIND_CFA_RSP;
    rule->arm64.frame = frames[i % 6];
    rule->arm64.link = links[i % 6];
    rule->cfa_register = (uint8_t)(16 + i % 16);
    for (uint32_t k = 0; k < UNWIND_NEAR_COUNT; k++)
        rule->arm64.near[k] = (i >> k) % 3 ? UNWIND_NEAR_SAME : (int8_t)(k + 2);
}
