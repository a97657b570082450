/* SPDX-License-Identifier: Apache-2.0
 *
 * The worker's part of symbol_code_read: finds the bytes of the ranges in the ELF file, and writes
 * their instructions. Thread safety: one thread. */
#ifndef SONDE_SERVICE_SYMBOL_CODE_READ_CODE_H
#define SONDE_SERVICE_SYMBOL_CODE_READ_CODE_H

#include "api/elf/elf.h"
#include "service/symbol/code/disassemble.h"

/* Appends a code file. SONDE_NOT_FOUND: the ELF file has no bytes for a range. SONDE_TOO_LARGE,
 * SONDE_OUT_OF_MEMORY. */
SONDE_MUST_USE sonde_err read_code(const struct elf_file *elf, struct disassembler *disassembler,
                                   const struct symbol_code_request *request,
                                   struct sonde_buf *out);

#endif
