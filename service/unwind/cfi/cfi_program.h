/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs programs of call frame instructions: a CIE's program makes the rules that its functions
 * begin with, a function's program makes rows. One thread at a time. */
#ifndef SONDE_SERVICE_UNWIND_CFI_CFI_PROGRAM_H
#define SONDE_SERVICE_UNWIND_CFI_CFI_PROGRAM_H

#include "service/unwind/cfi/cfi_memo.h"

/* Runs a CIE's initial instructions into cie->initial. Sets cie->bad if they are broken. */
void unwind_program_run_initial(struct cfi_memo *memo, struct cfi_cie *cie,
                                struct cursor instructions, const struct cfi_section *section);
/* Runs a function's instructions and adds its rows for [start, end), offsets from rows->origin. If
 * the program is broken, a gap follows its valid rows. Use a memo with one `rows` only. */
void unwind_program_run(struct cfi_memo *memo, struct cfi_cie *cie, struct cursor instructions,
                        const struct cfi_section *section, uint32_t start, uint32_t end,
                        struct unwind_rows *rows);

#endif
