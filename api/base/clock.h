/* SPDX-License-Identifier: Apache-2.0
 *
 * The kernel's clocks as numbers. CLOCK_MONOTONIC measures and waits; CLOCK_REALTIME gives dates,
 * and nothing waits on it, since it can be set by hours. Every function is safe in all threads and
 * in signal handlers.
 */
#ifndef SONDE_CLOCK_H
#define SONDE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline int64_t clock_ms(clockid_t clock) {
    return clock_ns(clock) / 1000000;
}

/* A time of CLOCK_MONOTONIC in nanoseconds, for pthread_cond_clockwait and lock_wait_until. */
static inline struct timespec clock_timespec(int64_t monotonic_ns) {
    return (struct timespec){.tv_sec = monotonic_ns / 1000000000,
                             .tv_nsec = monotonic_ns % 1000000000};
}

/* When a wait of `ms` that begins now ends. */
static inline struct timespec clock_wait_end(int64_t ms) {
    return clock_timespec(clock_ns(CLOCK_MONOTONIC) + ms * 1000000);
}

#endif
