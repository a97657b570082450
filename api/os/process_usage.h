/* SPDX-License-Identifier: Apache-2.0
 *
 * What the calling process uses, for the metrics process_* that every Prometheus client exports.
 * What cannot be read is 0. Thread safety: any thread. */
#ifndef SONDE_API_OS_PROCESS_USAGE_H
#define SONDE_API_OS_PROCESS_USAGE_H

#include <stdint.h>

struct process_usage {
    uint64_t cpu_ns;
    uint64_t resident_bytes, virtual_bytes;
    uint64_t open_fds, max_fds;
};

void process_usage_read(struct process_usage *usage);

#endif
