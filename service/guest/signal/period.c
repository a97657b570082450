/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/signal/period.h"

#define TRIES       32     /* of rejection sampling; each succeeds in two of three cases */
#define FIRST_SLACK 30000u /* ns, more than the error of a clock reading */

/* xorshift64*, whose state must not be 0. */
uint64_t period_random(struct sampled_thread *thread) {
    uint64_t state = thread->random;
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    thread->random = state;
    return state * 0x2545f4914f6cdd1dull >> 32;
}

uint64_t period_phase(struct sampled_thread *thread, uint64_t period_ns) {
    return (uint64_t)((__uint128_t)period_ns * period_random(thread) >> 32) + 1;
}

uint64_t period_dither(struct sampled_thread *thread, uint64_t nominal_ns) {
    return nominal_ns - nominal_ns / 2 + period_phase(thread, nominal_ns);
}

/* True with probability size / largest: the chance that a span of this size is the one under way at
 * a random moment, compared with one of the largest size. */
static bool is_under_way(struct sampled_thread *thread, uint64_t size, uint64_t largest) {
    return period_phase(thread, largest) <= size;
}

/* A period stays for at least this many ticks, and for at most twice as many. Ticks at one period
 * see work that repeats at that rate always at the same point, so together they are worth one
 * sample. But a new period costs two system calls, one of which sets a hardware timer (12 us in a
 * virtual machine), so only slow clocks renew it at nearly every tick. */
static uint32_t fewest_ticks(uint64_t nominal_ns) {
    return nominal_ns >= 40000000 ? 1 : nominal_ns >= 900000 ? 3 : nominal_ns >= 400000 ? 8 : 16;
}

static uint32_t draw_ticks(struct sampled_thread *thread, uint64_t nominal_ns) {
    uint32_t fewest = fewest_ticks(nominal_ns);
    return fewest + (uint32_t)(period_random(thread) % (fewest + 1));
}

void period_begin(struct sampled_thread *thread, uint64_t nominal_ns) {
    uint64_t period = nominal_ns, ticks = 1, most = 2 * fewest_ticks(nominal_ns);
    for (int i = 0; i < TRIES; i++) {
        period = period_dither(thread, nominal_ns);
        if (is_under_way(thread, period, nominal_ns + nominal_ns / 2))
            break;
    }
    for (int i = 0; i < TRIES; i++) {
        ticks = draw_ticks(thread, nominal_ns);
        if (is_under_way(thread, ticks, most))
            break;
    }
    thread->period_ns = period;
    thread->nominal_ns = nominal_ns;
    thread->until_renewal = (uint32_t)period_phase(thread, ticks);
    thread->rounding_point = (uint32_t)period_random(thread);
}

uint64_t period_count(const struct sampled_thread *thread, uint64_t due_ns) {
    uint64_t period = thread->period_ns;
    uint64_t least = (uint64_t)((__uint128_t)period * thread->rounding_point >> 32);
    uint64_t slack = period / 2 > FIRST_SLACK ? FIRST_SLACK : period / 2;
    if (thread->is_first_tick)
        return due_ns + slack < period ? 0 : due_ns < least ? 1 : (due_ns - least) / period + 1;
    return due_ns < least ? 0 : (due_ns - least) / period + 1;
}

bool period_renew(struct sampled_thread *thread, uint64_t nominal_ns) {
    if (thread->until_renewal > 1 && nominal_ns == thread->nominal_ns) {
        thread->until_renewal--;
        return false;
    }
    thread->period_ns = period_dither(thread, nominal_ns);
    thread->nominal_ns = nominal_ns;
    thread->until_renewal = draw_ticks(thread, nominal_ns);
    return true;
}

int64_t period_due_ns(const struct sampled_thread *thread, int64_t cpu_ns) {
    uint64_t counted = atomic_load_explicit(&thread->counted_ns, memory_order_relaxed);
    uint64_t reported = atomic_load_explicit(&thread->reported_ns, memory_order_relaxed);
    return cpu_ns - thread->base_ns - (int64_t)(counted + reported);
}
