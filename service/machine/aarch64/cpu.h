/* SPDX-License-Identifier: Apache-2.0
 *
 * What the processor says of itself. Each machine has this header, and Bazel chooses one as
 * service/machine/own/cpu.h. Any thread. */
#ifndef SONDE_SERVICE_MACHINE_OWN_CPU_H
#define SONDE_SERVICE_MACHINE_OWN_CPU_H

#include <stdbool.h>

/* Whether this is a virtual machine, where interrupts cost more. No instruction shows it to
 * programs on arm64. Most arm64 servers are virtual, so the answer is always yes. */
static inline bool cpu_is_virtual(void) {
    return true;
}

#endif
