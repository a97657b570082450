/* SPDX-License-Identifier: Apache-2.0
 *
 * The sampler's mathematics, without libm: random numbers, the exponential distance to the next
 * sample, and the chance an allocation had. Thread and signal safety: signal-safe; a state belongs
 * to one thread. */
#ifndef SONDE_SERVICE_GUEST_HEAP_RANDOM_H
#define SONDE_SERVICE_GUEST_HEAP_RANDOM_H

#include <stdint.h>

#pragma GCC visibility push(hidden)

uint64_t chance_random(uint64_t *state);
/* Bytes from one sample to the next: the whole part of an exponential of that mean, which forgets
 * how far it has come. */
uint64_t chance_distance(uint64_t *state, double mean);
/* 1 - exp(-x), x >= 0; relative error below 1e-9. */
double chance_hit(double x);

#pragma GCC visibility pop

#endif
