/* SPDX-License-Identifier: Apache-2.0 */
#include "service/machine/rules.h"

#include "service/machine/aarch64/packed.h"
#include "service/machine/x86_64/packed.h"

#include <elf.h>

const struct machine_rules *machine_rules_of(uint32_t machine) {
    static const struct machine_rules x86_64 = {x86_64_hot, x86_64_rule_is_sane};
    static const struct machine_rules aarch64 = {aarch64_hot, aarch64_rule_is_sane};
    return machine == EM_X86_64 ? &x86_64 : machine == EM_AARCH64 ? &aarch64 : NULL;
}
