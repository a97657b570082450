/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/unwind/copy_rules.h"

#include <elf.h>

const uint32_t fuzz_machine = EM_X86_64;

void fuzz_set_saved(uint32_t i, struct unwind_rule *rule) {
    for (int k = 0; k < UNWIND_SAVED_COUNT; k++)
        rule->saved[k] = (i >> k) % 3 ? UNWIND_SAME : (int16_t)(-16 - 8 * k);
}
