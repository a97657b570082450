/* SPDX-License-Identifier: Apache-2.0
 *
 * When a process started. History identifies a process by its pid and start, so the start must be
 * the same each time it is computed: the boot time is the kernel's, in seconds, not a difference of
 * two clocks. Thread safety: any thread. */
#ifndef SONDE_SERVICE_ENGINE_CORE_START_TIME_H
#define SONDE_SERVICE_ENGINE_CORE_START_TIME_H

#include <stdint.h>

/* start_ticks as in /proc/PID/stat. Without it, or without /proc, the answer is the present time.
 */
int64_t start_time_unix_ns(uint64_t start_ticks);

#endif
