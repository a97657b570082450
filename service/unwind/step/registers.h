/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers of a frame, by their DWARF numbers. Signal-safe. */
#ifndef SONDE_SERVICE_UNWIND_STEP_REGISTERS_H
#define SONDE_SERVICE_UNWIND_STEP_REGISTERS_H

#include <stdint.h>

#define UNWIND_REGISTERS 17u
#define UNWIND_REG_RBX   3u
#define UNWIND_REG_RBP   6u
#define UNWIND_REG_RSP   7u
#define UNWIND_REG_R12   12u
#define UNWIND_REG_RIP   16u

/* Bit n of `known` is set if value[n] is register n. */
struct unwind_registers {
    uint64_t value[UNWIND_REGISTERS];
    uint32_t known;
};

#define UNWIND_ALL_KNOWN ((1u << UNWIND_REGISTERS) - 1)

/* The registers in the function this is inlined into, for a walk that starts at an ordinary call (a
 * heap hook). Of that walk pcs[0] is in that function and pcs[1] in its caller. */
__attribute__((always_inline)) static inline void
unwind_registers_here(struct unwind_registers *here) {
    __asm__ volatile("leaq 0(%%rip), %%rax\n\t"
                     "movq %%rax, 128(%0)\n\t"
                     "movq %%rsp, 56(%0)\n\t"
                     "movq %%rbp, 48(%0)\n\t"
                     "movq %%rbx, 24(%0)\n\t"
                     "movq %%r12, 96(%0)\n\t"
                     "movq %%r13, 104(%0)\n\t"
                     "movq %%r14, 112(%0)\n\t"
                     "movq %%r15, 120(%0)"
                     :
                     : "r"(here->value)
                     : "rax", "memory");
    here->known = 1u << UNWIND_REG_RIP | 1u << UNWIND_REG_RSP | 1u << UNWIND_REG_RBP |
                  1u << UNWIND_REG_RBX | 0xfu << UNWIND_REG_R12;
}

#endif
