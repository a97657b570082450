/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions behind machine_aarch64. Only this folder includes this. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_AARCH64_AARCH64_H
#define SONDE_SERVICE_MACHINE_AARCH64_AARCH64_H

#include "service/machine/cfi_machine.h"
#include "service/machine/machine.h"

bool aarch64_next_plt_entry(const struct machine_plt *plt, size_t from,
                            struct machine_plt_entry *entry);
size_t aarch64_find_plt_push(const struct machine_plt *plt);
bool aarch64_find_veneer_target(const char *name, const char **target, size_t *len);
uint64_t aarch64_page_of(uint64_t address, uint32_t adrp);
bool aarch64_next_call(const struct machine_text *text, size_t *at, struct machine_call *call);
size_t aarch64_trampoline_at(const uint8_t *code, size_t len);
uint32_t aarch64_count_frames(const uint8_t *code, size_t len);
extern const struct cfi_machine aarch64_cfi;

#endif
