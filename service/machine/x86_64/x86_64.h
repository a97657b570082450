/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions behind machine_x86_64. Only this folder includes this. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_X86_64_X86_64_H
#define SONDE_SERVICE_MACHINE_X86_64_X86_64_H

#include "service/machine/cfi_machine.h"
#include "service/machine/machine.h"

bool x86_64_next_plt_entry(const struct machine_plt *plt, size_t from,
                           struct machine_plt_entry *entry);
bool x86_64_next_call(const struct machine_text *text, size_t *at, struct machine_call *call);
size_t x86_64_trampoline_at(const uint8_t *code, size_t len);
uint32_t x86_64_count_frames(const uint8_t *code, size_t len);
extern const struct cfi_machine x86_64_cfi;

#endif
