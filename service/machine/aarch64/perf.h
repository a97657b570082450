/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers in a perf sample. Each machine has this header, and Bazel chooses one as
 * service/machine/own/perf.h. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_OWN_PERF_H
#define SONDE_SERVICE_MACHINE_OWN_PERF_H

#include "service/machine/own/registers.h"

/* Bits of sample_regs_user: x0 to x30, sp and pc. */
#define PERF_REGISTERS 0x1ffffffffull

/* DWARF numbers in the order of the bits. */
static const uint8_t perf_registers[UNWIND_REGISTERS] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
    17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};

#endif
