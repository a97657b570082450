/* SPDX-License-Identifier: Apache-2.0 */
#include "api/elf/machine.h"

#include <stdbool.h>
#include <stdio.h>

#define MACHINE_NAME 64

static const struct {
    uint16_t machine;
    bool is_narrow; /* its pointers always have 32 bits */
    const char *name;
} machines[] = {
    {EM_386, true, "32-bit x86"},
    {EM_X86_64, false, "x86-64"},
    {EM_ARM, true, "32-bit Arm"},
    {EM_AARCH64, false, "arm64"},
    {EM_RISCV, false, "RISC-V"},
    {EM_PPC, true, "32-bit PowerPC"},
    {EM_PPC64, false, "PowerPC"},
    {EM_S390, false, "s390"},
    {EM_MIPS, false, "MIPS"},
    {EM_SPARC, true, "32-bit SPARC"},
    {EM_SPARCV9, false, "SPARC"},
    {258, false, "LoongArch"}, /* EM_LOONGARCH, which older headers lack */
    {EM_BPF, false, "BPF"},
};

#define MACHINES (sizeof machines / sizeof *machines)

const char *elf_machine_name(uint16_t machine) {
    for (size_t i = 0; i < MACHINES; i++)
        if (machines[i].machine == machine)
            return machines[i].name;
    return NULL;
}

static bool is_narrow(uint16_t machine) {
    for (size_t i = 0; i < MACHINES; i++)
        if (machines[i].machine == machine)
            return machines[i].is_narrow;
    return false;
}

/* "big-endian arm64", "x86-64 with 32-bit pointers (x32)", "machine 99" */
static void describe(const Elf64_Ehdr *header, uint16_t machine, char text[MACHINE_NAME]) {
    bool is_short = header->e_ident[EI_CLASS] == ELFCLASS32 && !is_narrow(machine);
    const char *name = elf_machine_name(machine);
    const char *abi = !is_short               ? ""
                      : machine == EM_X86_64  ? " with 32-bit pointers (x32)"
                      : machine == EM_AARCH64 ? " with 32-bit pointers (ILP32)"
                                              : " with 32-bit pointers";
    char number[16];
    snprintf(number, sizeof number, "machine %u", machine);
    snprintf(text, MACHINE_NAME, "%s%s%s",
             header->e_ident[EI_DATA] == ELFDATA2MSB ? "big-endian " : "", name ? name : number,
             abi);
}

sonde_err elf_check_machine(const Elf64_Ehdr *header, struct sonde_diag *diag) {
    bool is_big = header->e_ident[EI_DATA] == ELFDATA2MSB;
    uint16_t machine = is_big ? __builtin_bswap16(header->e_machine) : header->e_machine;
    char text[MACHINE_NAME];
    if (header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
        (machine == EM_X86_64 || machine == EM_AARCH64))
        return SONDE_OK;
    describe(header, machine, text);
    return sonde_fail(diag, SONDE_INVALID_ARGUMENT,
                      "the file is for %s; Sonde reads 64-bit little-endian ELF files for x86-64 "
                      "and arm64",
                      text);
}
