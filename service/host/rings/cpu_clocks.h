/* SPDX-License-Identifier: Apache-2.0
 *
 * The clocks that sample all CPUs: several slow ones for each CPU instead of a fast one. The ticks
 * of one clock are no independent samples of a program that works in a rhythm, because the rhythm
 * falls into step with the clock; so many ticks tell no more than one. Clocks of different periods,
 * each random and renewed now and then, cannot all be in step. Together they tick as often as one
 * of the asked period.
 *
 * A sample says which clock took it: its weight, as the kernel tells it, is the period that the
 * clock was created with, and the last bits of that are the clock's number. Thread safety: one
 * thread at a time. */
#ifndef SONDE_SERVICE_HOST_RINGS_CPU_CLOCKS_H
#define SONDE_SERVICE_HOST_RINGS_CPU_CLOCKS_H

#include "service/host/record.h"
#include "service/host/rings/clock.h"

#include <stddef.h>

#define CPU_CLOCKS_MAX    8u          /* of a CPU */
#define CPU_CLOCKS_ALL    512u        /* of all CPUs, unless there are more CPUs */
#define CPU_CLOCKS_NS     1000000000u /* for so long, and for so many ticks, a clock keeps its */
#define CPU_CLOCKS_EVERY  16u         /* period at least */
#define CPU_CLOCKS_BITS   15u         /* of a period: the clock's number */
#define CPU_CLOCKS_SPREAD 4u          /* periods are random within a quarter */
#define CPU_CLOCKS_SLOW   200000000u  /* from this period on one clock is enough */

/* One clock; fd -1 = the CPU is offline. */
struct cpu_timer {
    int fd;
    bool is_early; /* it runs at its first period */
    struct cpu_clock clock;
};

struct cpu_clocks {
    struct cpu_timer *timers; /* those of a CPU are neighbours */
    size_t cpus;
    uint32_t each; /* clocks of a CPU */
    uint32_t turn; /* which one of each CPU is renewed next */
    uint64_t turned_ns;
    uint64_t (*draw)(void *context, uint64_t low, uint64_t high); /* a random period in between */
    void *context;
};

/* False when out of memory. */
bool cpu_clocks_create(struct cpu_clocks *clocks, size_t cpus, uint64_t period_ns,
                       uint64_t (*draw)(void *context, uint64_t low, uint64_t high), void *context);
void cpu_clocks_finish(struct cpu_clocks *clocks); /* leaves the descriptors open */
/* The period to create a clock with. */
uint64_t cpu_clocks_created_ns(const struct cpu_clocks *clocks, uint64_t period_ns,
                               uint32_t number);
void cpu_clocks_add(struct cpu_clocks *clocks, size_t cpu, uint32_t number, int fd);
/* Starts all clocks, or starts them again at another rate. Their first ticks come a period apart,
 * as those of one clock would. is_first: they have not run until now. */
void cpu_clocks_start(struct cpu_clocks *clocks, uint64_t period_ns, bool is_first);
/* Gives another period to the clocks that have kept theirs for long enough. Call it every few
 * milliseconds. */
void cpu_clocks_renew(struct cpu_clocks *clocks, uint64_t period_ns);
/* Sets what a sample stands for; it has the period that its clock was created with. Times of one
 * CPU ascend. */
void cpu_clocks_weigh(struct cpu_clocks *clocks, size_t cpu, uint64_t time_ns,
                      struct host_sample *sample);

#endif
