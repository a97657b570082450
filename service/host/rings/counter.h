/* SPDX-License-Identifier: Apache-2.0
 *
 * How many events a sample of a counted event stands for. The kernel does not say it where a sample
 * is taken every so many events (perf_event.c), and that number changes while samples of the former
 * one are still in the rings. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_HOST_RINGS_COUNTER_H
#define SONDE_SERVICE_HOST_RINGS_COUNTER_H

#include <stdint.h>

/* Zeroed memory: samples say themselves what they stand for. */
struct counter {
    uint64_t every;                    /* events for one sample; 0 = the sample says it */
    uint64_t former_every, changed_ns; /* before the last change, and when that was */
    uint64_t sampled;                  /* events of all samples */
};

void counter_set(struct counter *counter, uint64_t every, uint64_t now_ns);
/* The events that a sample stands for; `told`: what it says. */
uint64_t counter_weigh(struct counter *counter, uint64_t time_ns, uint64_t told);

#endif
