/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers in a perf sample. Each machine has this header, and Bazel chooses one as
 * service/machine/own/perf.h. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_OWN_PERF_H
#define SONDE_SERVICE_MACHINE_OWN_PERF_H

#include "service/machine/own/registers.h"

/* Bits of sample_regs_user: AX to IP, and R8 to R15. */
#define PERF_REGISTERS 0xff01ffull

/* DWARF numbers in the order of the bits: AX BX CX DX SI DI BP SP IP R8-R15. */
static const uint8_t perf_registers[UNWIND_REGISTERS] = {0, 3, 2,  1,  4,  5,  6,  7, 16,
                                                         8, 9, 10, 11, 12, 13, 14, 15};

#endif
