/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes x86-64 instructions as far as an analysis of stack frames needs: their lengths, and the
 * operands of those that use general registers. Any thread. */
#ifndef SONDE_SERVICE_UNWIND_CODE_INSTRUCTION_H
#define SONDE_SERVICE_UNWIND_CODE_INSTRUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INSTRUCTION_NONE 0xff /* no register */

/* Numbers of the encoding: rax rcx rdx rbx rsp rbp rsi rdi r8 ... r15. */
enum { INSTRUCTION_RBX = 3, INSTRUCTION_RSP, INSTRUCTION_RBP };

enum instruction_map {
    INSTRUCTION_ONE_BYTE = 0,
    INSTRUCTION_TWO_BYTES, /* 0f op */
    INSTRUCTION_VECTOR,    /* 0f 38, 0f 3a, VEX, EVEX: they never move rsp */
};

struct instruction {
    uint8_t length;
    uint8_t map, opcode;
    bool is_wide; /* REX.W */
    bool has_modrm;
    uint8_t mod, reg, rm; /* reg and rm with their REX bits; mod 3: rm is a register */
    uint8_t base, index;  /* of a memory operand, or INSTRUCTION_NONE */
    int32_t disp;
    int64_t imm;
    uint8_t low; /* the register in the opcode's low bits, with its REX bit */
};

/* Returns false if it is not an instruction, or does not end within size bytes. */
bool instruction_decode(const uint8_t *code, size_t size, struct instruction *instruction);

#endif
