/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a seccomp filter would kill the process for a system call, as systemd's SystemCallFilter=
 * does. The kernel offers no way to ask, so a child process makes the call first. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_SECCOMP_PROBE_H
#define SONDE_SERVICE_GUEST_PROCESS_SECCOMP_PROBE_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* True when the process has a filter that kills the caller of this system call, or when that cannot
 * be found out. What the call creates disappears with the child. Needs Linux 5.16: on older kernels
 * a core dump of the child kills every process that shares its memory. Control thread only. */
bool seccomp_probe_kills(long number, long a, long b, long c, long d, long e);

#pragma GCC visibility pop

#endif
