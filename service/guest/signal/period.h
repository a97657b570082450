/* SPDX-License-Identifier: Apache-2.0
 *
 * When a sampled thread ticks next, and how many periods a tick stands for. Periods are random, so
 * that work which repeats at the sampling rate is not always seen at the same point. Only the owner
 * of the struct sampled_thread may call: the handler on that thread, or whoever arms its clock.
 * Signal-safe. */
#ifndef SONDE_SERVICE_GUEST_SIGNAL_PERIOD_H
#define SONDE_SERVICE_GUEST_SIGNAL_PERIOD_H

#include "service/guest/signal/handler_state.h"

#pragma GCC visibility push(hidden)

/* 32 random bits. */
SONDE_SIGSAFE
uint64_t period_random(struct sampled_thread *thread);
/* Uniform over nominal +-50 %; the mean is nominal. */
SONDE_SIGSAFE
uint64_t period_dither(struct sampled_thread *thread, uint64_t nominal_ns);
/* Uniform over (0, period]: when a clock that starts now ticks first. */
SONDE_SIGSAFE
uint64_t period_phase(struct sampled_thread *thread, uint64_t period_ns);

/* Draws the first period and the number of ticks it stays. They are distributed as if the thread
 * had been met at a random moment of an endless stream of ticks, where long periods are more
 * likely. Only then does the extra weight of a short thread's first period make up for the loss of
 * its last, unfinished one. */
SONDE_SIGSAFE
void period_begin(struct sampled_thread *thread, uint64_t nominal_ns);

/* Called at a tick. Draws a new period every few ticks, and at once when nominal_ns has changed.
 * False: the period stays. */
SONDE_SIGSAFE
bool period_renew(struct sampled_thread *thread, uint64_t nominal_ns);

/* Number of periods that a tick stands for when due_ns of CPU time are due. The CPU time drifts
 * away from the ticks, because a thread's clock includes the switch to the thread and its timer
 * does not. The rounding point is drawn once per thread (systematic sampling), so that sums over
 * many threads are unbiased whenever the threads end. The first tick counts one period as soon as
 * its phase is reached, since many threads have no other. 0: the tick came early, because the
 * hypervisor had the CPU. */
SONDE_SIGSAFE
uint64_t period_count(const struct sampled_thread *thread, uint64_t due_ns);

/* CPU time of the thread that no record covers yet: cpu_ns (its clock
 * now) - base - counted - reported. Arming sets the base so that one full period is due at the
 * first tick, however early that tick comes. Negative when a sample has counted ahead. */
SONDE_SIGSAFE
int64_t period_due_ns(const struct sampled_thread *thread, int64_t cpu_ns);

#pragma GCC visibility pop

#endif
