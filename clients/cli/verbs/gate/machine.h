/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine did besides a run: /proc/stat before and after it, less the CPU time of this
 * process's children. Main thread only. */
#ifndef SONDE_CLIENTS_CLI_VERBS_GATE_MACHINE_H
#define SONDE_CLIENTS_CLI_VERBS_GATE_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

/* Seconds of all CPUs together, since some moment. */
struct machine_times {
    double busy;   /* in user space, the kernel and interrupts */
    double stolen; /* while a CPU wanted to run, and the hypervisor ran something else */
    double own;    /* of this process and its children that have ended */
    double at;     /* the time of the reading */
    bool is_known;
};

void machine_times_read(struct machine_times *times);
/* Parses the first line of /proc/stat. False if it is not one. */
bool machine_times_parse(const char *line, double ticks_per_s, struct machine_times *times);
/* Writes "0.43 CPUs were busy with other work, 0.02 CPUs were stolen"; "" if neither is enough to
 * matter. */
void machine_describe(const struct machine_times *before, const struct machine_times *after,
                      char *text, size_t size);

#endif
