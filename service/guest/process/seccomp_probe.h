/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a seccomp filter would kill the process for a system call, as systemd's SystemCallFilter=
 * does. The kernel offers no way to ask, so a child process makes the call first. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_SECCOMP_PROBE_H
#define SONDE_SERVICE_GUEST_PROCESS_SECCOMP_PROBE_H

#include <stdbool.h>
#include <stddef.h>

#pragma GCC visibility push(hidden)

struct seccomp_probe_call {
    long number, a, b, c, d, e;
};

/* True when the calling thread has a filter that kills for one of these system calls, or when that
 * cannot be found out. What the calls create disappears with the child. Needs Linux 5.16: on older
 * kernels a core dump of the child kills every process that shares its memory. Control thread
 * only. */
bool seccomp_probe_kills(const struct seccomp_probe_call *calls, size_t count);

#pragma GCC visibility pop

#endif
