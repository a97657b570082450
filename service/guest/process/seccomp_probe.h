/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether a system call may be made at all. A seccomp filter can end the process for asking, as
 * systemd's SystemCallFilter= does, and nothing tells beforehand: so where a filter is, a child
 * that shares our memory for that moment asks first. Control thread. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_SECCOMP_PROBE_H
#define SONDE_SERVICE_GUEST_PROCESS_SECCOMP_PROBE_H

#include <stdbool.h>

#pragma GCC visibility push(hidden)

/* True when a filter is there and the call ends whoever makes it. What the call makes is gone with
 * the child. Needs Linux 5.16: before, a core dump of the child took its memory's other users
 * along. */
bool trial_kills(long number, long a, long b, long c, long d, long e);

#pragma GCC visibility pop

#endif
