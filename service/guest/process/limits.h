/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine and the process allow: the kernel's version, descriptors, CPUs. Asked of the
 * kernel directly, without malloc or stdio. Control thread only. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_LIMITS_H
#define SONDE_SERVICE_GUEST_PROCESS_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

bool limits_kernel_at_least(unsigned major, unsigned minor);

/* *open_now: open descriptors, counted up to 65536; half of *most when /proc cannot be read. *most:
 * the soft limit RLIMIT_NOFILE, at most 1 << 20. */
void limits_descriptors(int *open_now, int *most);

/* kernel.perf_event_paranoid, at least -1; -2 if it cannot be read, as in a chroot. */
int limits_perf_paranoid(void);

/* CPUs that the calling thread may run on, at least 1. */
uint32_t limits_cpus(void);

#endif
