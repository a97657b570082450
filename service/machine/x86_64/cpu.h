/* SPDX-License-Identifier: Apache-2.0
 *
 * What the processor says of itself. Each machine has this header, and Bazel chooses one as
 * service/machine/own/cpu.h. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_OWN_CPU_H
#define SONDE_SERVICE_MACHINE_OWN_CPU_H

#include <cpuid.h>
#include <stdbool.h>

/* Whether it is that of a virtual machine, in which interrupts are slower. */
static inline bool cpu_is_virtual(void) {
    unsigned a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c >> 31 & 1);
}

#endif
