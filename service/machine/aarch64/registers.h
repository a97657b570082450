/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers of a frame, by their DWARF numbers. Each machine has this header, and Bazel chooses
 * one as service/machine/own/registers.h. Signal-safe. */
#ifndef SONDE_SERVICE_MACHINE_OWN_REGISTERS_H
#define SONDE_SERVICE_MACHINE_OWN_REGISTERS_H

#include <stdint.h>

#define UNWIND_REGISTERS 33u
#define UNWIND_REG_NEAR  19u /* x19 to x28 are callee-saved */
#define UNWIND_REG_FP    29u
#define UNWIND_REG_LINK  30u /* a call stores its return address here */
#define UNWIND_REG_SP    31u
#define UNWIND_REG_PC    32u

/* Where a ucontext has x0 to x30, sp and pc. */
#define UNWIND_CONTEXT_REGISTERS 184u

/* Bit n of `known` is set if value[n] is register n. If sp is not known, the value is a lower
 * bound. */
struct unwind_registers {
    uint64_t value[UNWIND_REGISTERS];
    uint64_t known;
};

#define UNWIND_ALL_KNOWN ((1ull << UNWIND_REGISTERS) - 1)

#endif
