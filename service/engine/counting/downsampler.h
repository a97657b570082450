/* SPDX-License-Identifier: Apache-2.0
 *
 * Selects a capture's samples from the tick stream that all captures of a target share.
 *
 * The guest ticks at the highest rate that any capture asked for, and every record says how much
 * time of its thread it stands for. A capture adds up these times per thread. Each time the sum
 * reaches the capture's period, one sample counts. The sum of a new thread starts at a random point
 * of the period. So samples x period equals the thread's time whatever the tick was, with overruns
 * and dithered periods, and a thread that lives for a fraction of the period is counted with
 * exactly that probability. Thread safety: one thread at a time. */
#ifndef SONDE_SERVICE_ENGINE_COUNTING_DOWNSAMPLER_H
#define SONDE_SERVICE_ENGINE_COUNTING_DOWNSAMPLER_H

#include "api/hash_index.h"

/* Threads with a sum of their own. Each record of a further thread starts at a new random point,
 * which keeps the expected number of samples right. */
#define DOWNSAMPLER_MAX (1u << 16)

struct downsampler_thread {
    uint32_t tid;
    uint64_t accumulated_ns;
};

struct downsampler {
    uint64_t period_ns;
    uint64_t random; /* state of the generator */
    struct downsampler_thread *threads;
    uint32_t used, capacity;
    struct hash_index index; /* of threads, by tid */
};

void downsampler_init(struct downsampler *downsampler, uint64_t period_ns, uint64_t seed);
/* The number of samples that weight_ns of a thread's time stands for. */
uint64_t downsampler_take(struct downsampler *downsampler, uint32_t tid, uint64_t weight_ns);
void downsampler_finish(struct downsampler *downsampler);

#endif
