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
    __asm__ volatile("adr x9, .\n\t"
                     "mov x10, sp\n\t"
                     "stp x10, x9, [%0, #248]\n\t"
                     "stp x29, x30, [%0, #232]\n\t"
                     "stp x27, x28, [%0, #216]\n\t"
                     "stp x25, x26, [%0, #200]\n\t"
                     "stp x23, x24, [%0, #184]\n\t"
                     "stp x21, x22, [%0, #168]\n\t"
                     "stp x19, x20, [%0, #152]"
                     :
                     : "r"(here->value)
                     : "x9", "x10", "memory");
    here->known = UNWIND_ALL_KNOWN & ~((1ull << UNWIND_REG_NEAR) - 1);
}

#endif
