/* SPDX-License-Identifier: Apache-2.0
 *
 * What a seccomp filter does with the guest's calls, read from the filter's program. */
#ifndef SONDE_SERVICE_GUEST_PROCESS_SECCOMP_PROGRAM_H
#define SONDE_SERVICE_GUEST_PROCESS_SECCOMP_PROGRAM_H

#include <stdbool.h>
#include <stdint.h>

#pragma GCC visibility push(hidden)

struct sock_fprog;

/* Whether the filter may do more than refuse, with an error, a call that the guest makes on any
 * thread: kill, trap, ask a tracer, or keep a signal handler from returning. with_perf: the guest
 * calls perf_event_open without trying it first (seccomp_probe.h). Arguments of calls are not
 * looked at: if the filter does, both outcomes count. True if the program cannot be read. Any
 * thread; not signal-safe. */
bool seccomp_program_harms(const struct sock_fprog *program, bool with_perf);

#pragma GCC visibility pop

#endif
