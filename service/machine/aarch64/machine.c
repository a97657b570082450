/* SPDX-License-Identifier: Apache-2.0 */
#include "service/machine/aarch64/aarch64.h"

const struct machine machine_aarch64 = {
    .elf = EM_AARCH64,
    .relocations = {R_AARCH64_JUMP_SLOT, R_AARCH64_GLOB_DAT, R_AARCH64_ABS64},
    .next_plt_entry = aarch64_next_plt_entry,
    .find_veneer_target = aarch64_find_veneer_target,
};
