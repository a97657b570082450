/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers of a frame, by their DWARF numbers. Each machine has this header, and Bazel chooses
 * one as service/machine/own/registers.h. Signal-safe. */
#ifndef SONDE_SERVICE_MACHINE_OWN_REGISTERS_H
#define SONDE_SERVICE_MACHINE_OWN_REGISTERS_H

#include <stdint.h>

#define UNWIND_REGISTERS 17u
#define UNWIND_REG_RBX   3u
#define UNWIND_REG_FP    6u /* rbp */
#define UNWIND_REG_SP    7u /* rsp */
#define UNWIND_REG_R12   12u
#define UNWIND_REG_PC    16u /* rip */

/* Bit n of `known` is set if value[n] is register n. */
struct unwind_registers {
    uint64_t value[UNWIND_REGISTERS];
    uint64_t known;
};

#define UNWIND_ALL_KNOWN ((1ull << UNWIND_REGISTERS) - 1)

#endif
