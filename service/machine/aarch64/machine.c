/* SPDX-License-Identifier: Apache-2.0 */
#include "service/machine/aarch64/aarch64.h"
#include "service/machine/aarch64/relocations.h"

const struct machine machine_aarch64 = {
    .elf = EM_AARCH64,
    .largest_page = 65536,
    .relocations = &aarch64_relocations,
    .next_plt_entry = aarch64_next_plt_entry,
    .find_plt_push = aarch64_find_plt_push,
    .find_veneer_target = aarch64_find_veneer_target,
    .next_call = aarch64_next_call,
    /* siginfo is in front of the ucontext */
    .code = {.trampoline_at = aarch64_trampoline_at,
             .ucontext_at = 128,
             .step = 4,
             .count_frames = aarch64_count_frames,
             .is_analysed = false},
    .cfi = &aarch64_cfi,
};
