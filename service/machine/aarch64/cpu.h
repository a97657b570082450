/* SPDX-License-Identifier: Apache-2.0
 *
 * What the processor says of itself. Each machine has this header, and Bazel chooses one as
 * service/machine/own/cpu.h. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_OWN_CPU_H
#define SONDE_SERVICE_MACHINE_OWN_CPU_H

#include <stdbool.h>

/* Whether it is that of a virtual machine, in which interrupts are slower. Programs cannot ask, and
 * most machines of this kind are virtual. */
static inline bool cpu_is_virtual(void) {
    return true;
}

#endif
