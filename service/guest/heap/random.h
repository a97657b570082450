/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's mathematics, without libm: random numbers, the distance between samples and the
 * probability of a sample. Signal-safe; each thread needs a state of its own. */
#ifndef SONDE_SERVICE_GUEST_HEAP_RANDOM_H
#define SONDE_SERVICE_GUEST_HEAP_RANDOM_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

/* 64 random bits. */
uint64_t random_next(uint64_t *state);
/* Bytes from one sample to the next: the whole part of an exponential of that mean. */
uint64_t random_distance(uint64_t *state, double mean);
/* 1 - exp(-x) for x >= 0: the probability that x mean distances hold a sample. The relative error
 * is below 1e-9. */
double random_hit_probability(double x);

#pragma GCC visibility pop

#endif
