/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers of the running function; each machine has this header. Signal-safe. */
#ifndef SONDE_SERVICE_MACHINE_OWN_HERE_H
#define SONDE_SERVICE_MACHINE_OWN_HERE_H

#include "service/machine/own/registers.h"

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
    here->known = 1ull << UNWIND_REG_PC | 1ull << UNWIND_REG_SP | 1ull << UNWIND_REG_FP |
                  1ull << UNWIND_REG_RBX | 0xfull << UNWIND_REG_R12;
}

#endif
