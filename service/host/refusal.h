/* SPDX-License-Identifier: Apache-2.0
 *
 * Sentences for what the kernel refuses: what it said, and the settings and capabilities on which
 * that depends. Any thread. */
#ifndef SONDE_SERVICE_HOST_REFUSAL_H
#define SONDE_SERVICE_HOST_REFUSAL_H

#include <stdbool.h>
#include <stdint.h>

#define REFUSAL_BYTES 192

/* A number of /proc/sys/kernel; `otherwise` if it is not there or not readable. */
int refusal_setting(const char *name, int otherwise);
/* Whether perf_event_open asks for CAP_SYS_ADMIN on kernels with the patch of Debian and Ubuntu;
 * *level is kernel.perf_event_paranoid. */
bool refusal_is_paranoid(int *level);
/* Whether this kernel is at least MAJOR.MINOR. */
bool refusal_kernel_at_least(int major, int minor);
/* Whether the kernel is locked down so far that not even root may read its memory. */
bool refusal_is_locked_down(void);

/* "Permission denied (capabilities: perfmon,bpf; Linux 6.1.0)". error: an errno. capabilities: of
 * the process that asked, a bit each. */
void refusal_text(int error, uint64_t capabilities, char text[REFUSAL_BYTES]);
/* The same for the off-CPU program, which some kernels cannot have whoever asks; *is_final then. */
void refusal_of_bpf(int error, uint64_t capabilities, bool *is_final, char text[REFUSAL_BYTES]);

#endif
