/* SPDX-License-Identifier: Apache-2.0
 *
 * Disassembles code with Capstone. Only the worker process does: Capstone is loaded at run time, so
 * that sonded neither maps it nor needs it. Syntax is that of objdump and perf (AT&T on x86-64).
 * Thread safety: one thread. */
#ifndef SONDE_SERVICE_SYMBOL_CODE_DISASSEMBLE_H
#define SONDE_SERVICE_SYMBOL_CODE_DISASSEMBLE_H

#include "service/machine/machine.h"
#include "service/symbol/code/code_file.h"

struct disassembler;

/* Loads the library, which a confined process may no longer be able to read. */
void disassembler_preload(void);
/* Loads the library and opens it for a machine. NULL: not installed, or out of memory. */
struct disassembler *disassembler_create(const struct machine *machine);
void disassembler_destroy(struct disassembler *disassembler);

/* Called for each instruction, in order. */
typedef void on_instruction(void *context, const struct symbol_instruction *instruction,
                            const char *text);
/* Decodes all bytes, of which the first is at vaddr. Bytes that are not an instruction are
 * SYMBOL_CODE_DATA. */
void disassemble(struct disassembler *disassembler, const uint8_t *bytes, size_t len,
                 uint64_t vaddr, on_instruction *on_each, void *context);

#endif
