/* SPDX-License-Identifier: Apache-2.0
 *
 * A cpu-clock of a CPU: how much time each of its samples stands for.
 *
 * The kernel's timer expires at start + n * period, exactly, and a sample is taken unless the CPU
 * is idle then. A change of the period starts the timer again. The time since its last expiry is
 * then without a sample, so it is added to the first sample after the change. Thread
 * safety: one thread at a time. */
#ifndef SONDE_SERVICE_HOST_RINGS_CLOCK_H
#define SONDE_SERVICE_HOST_RINGS_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct cpu_clock {
    uint64_t start_ns, period_ns; /* of the timer as it runs now; 0 = it never ran */
    uint64_t rest_ns;             /* for the first sample after start_ns */
    uint64_t former_period_ns;    /* before start_ns */
    bool is_fresh;                /* it has not expired since it ran for the first time */
};

/* The timer was started. is_first: it did not run until now. */
void cpu_clock_restart(struct cpu_clock *clock, uint64_t now_ns, uint64_t period_ns, bool is_first);
/* Before cpu_clock_weight: what the sample stands for to whoever came with the last change of the
 * period, as if the clock had started then. 0 = it is not the first one since. */
uint64_t cpu_clock_renewed(const struct cpu_clock *clock, uint64_t time_ns);
/* What a sample at this time stands for. Times of one CPU ascend. */
uint64_t cpu_clock_weight(struct cpu_clock *clock, uint64_t time_ns);

#endif
