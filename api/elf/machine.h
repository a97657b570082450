/* SPDX-License-Identifier: Apache-2.0
 *
 * The machines whose files Sonde reads, and the names of the others, so that a refusal says what a
 * file is for. Any thread. */
#ifndef SONDE_API_ELF_MACHINE_H
#define SONDE_API_ELF_MACHINE_H

#include "api/error.h"

#include <elf.h>

/* "x86-64", "arm64", "RISC-V", ...; NULL if the number is unknown. */
const char *elf_machine_name(uint16_t machine);
/* Checks the first EI_NIDENT bytes and e_machine of an ELF file. SONDE_INVALID_ARGUMENT, with a
 * sentence that names the machine: it is not a 64-bit little-endian file for x86-64 or arm64. */
SONDE_MUST_USE sonde_err elf_check_machine(const Elf64_Ehdr *header, struct sonde_diag *diag);

#endif
