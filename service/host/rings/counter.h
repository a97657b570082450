/* SPDX-License-Identifier: Apache-2.0
 *
 * How many events a sample of a counted event stands for. The kernel does not say it where a sample
 * is taken every so many events (perf_event.c), and that number changes while samples of the former
 * one are still in the rings. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_HOST_RINGS_COUNTER_H
#define SONDE_SERVICE_HOST_RINGS_COUNTER_H

#include <stdint.h>

/* Zeroed memory: samples say themselves what they stand for. */
#define COUNTER_CHANGES 64u /* that are remembered; samples of before have the oldest weight */

struct counter {
    /* The last periods and since when they hold, in a circle. */
    struct counter_change {
        uint64_t every, since_ns;
    } changes[COUNTER_CHANGES];
    uint64_t count;   /* of all changes; 0 = samples say themselves what they stand for */
    uint64_t sampled; /* events of all samples */
};

/* From now on a sample stands for `every` events. */
void counter_set(struct counter *counter, uint64_t every, uint64_t now_ns);
/* The events that a sample stands for; `told`: what it says. */
uint64_t counter_weigh(struct counter *counter, uint64_t time_ns, uint64_t told);

#endif
