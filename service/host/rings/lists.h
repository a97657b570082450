/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers from the kernel: the CPUs that are online, the threads of a process, the highest rate.
 * Thread safety: any thread. */
#ifndef SONDE_SERVICE_HOST_RINGS_LISTS_H
#define SONDE_SERVICE_HOST_RINGS_LISTS_H

#include "api/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct number_list {
    int32_t *numbers; /* ascending */
    size_t count, capacity;
};

/* Parses "0-3,8,10-11\n", as in /sys/devices/system/cpu/online. CORRUPT if it is anything else, is
 * not ascending, or has a number above 65535. */
SONDE_MUST_USE sonde_err number_list_parse(struct number_list *list, const char *text);
SONDE_MUST_USE sonde_err number_list_read_cpus(struct number_list *list);
/* TARGET_GONE: the process has ended. */
SONDE_MUST_USE sonde_err number_list_read_threads(struct number_list *list, pid_t pid);
/* kernel.perf_event_max_sample_rate. Above it, the kernel stops a clock until its next tick, and
 * the time until then has no samples. 0 = unknown. */
uint64_t max_sample_rate_read(void);
bool number_list_has(const struct number_list *list, int32_t number);
void number_list_finish(struct number_list *list);

#endif
