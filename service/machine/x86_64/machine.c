/* SPDX-License-Identifier: Apache-2.0 */
#include "service/machine/x86_64/relocations.h"
#include "service/machine/x86_64/x86_64.h"

static bool has_no_veneers(const char *name, const char **target, size_t *len) {
    return false;
}

const struct machine machine_x86_64 = {
    .elf = EM_X86_64,
    .largest_page = 4096,
    .relocations = &x86_64_relocations,
    .next_plt_entry = x86_64_next_plt_entry,
    .find_veneer_target = has_no_veneers,
    .next_call = x86_64_next_call,
    .code = {.trampoline_at = x86_64_trampoline_at,
             .ucontext_at = 0,
             .step = 1,
             .count_frames = x86_64_count_frames,
             .is_analysed = true},
    .cfi = &x86_64_cfi,
};
