/* SPDX-License-Identifier: Apache-2.0 */
#include "service/guest/signal/period.h"

#include "service/guest/sampling/sampled_threads.h"
#include "tests/unit/check.h"

TEST(phases_are_uniform_and_periods_keep_their_mean) {
    const uint64_t period = 10101010;
    CHECK_INT(sampled_threads_open(), ==, 0);
    double phases = 0, periods = 0;
    int buckets[10] = {0};
    const int rounds = 20000;
    for (int i = 0; i < rounds;
         i++) { /* a new thread each time, as a program of short threads has */
        uint64_t mask;
        sampled_threads_lock(&mask);
        struct sampled_thread *thread = sampled_threads_add(1000 + (uint32_t)i % 50);
        CHECK(thread);
        uint64_t phase = period_phase(thread, period), dithered = period_dither(thread, period);
        sampled_threads_remove(thread);
        sampled_threads_unlock(&mask);
        CHECK(phase >= 1 && phase <= period);
        CHECK(dithered > period / 2 && dithered <= period + period / 2 + 1);
        phases += (double)phase;
        periods += (double)dithered;
        buckets[(phase - 1) * 10 / period]++;
    }
    CHECK_NEAR(phases / rounds / (double)period, 0.5, 0.02);
    CHECK_NEAR(periods / rounds / (double)period, 1.0, 0.02);
    for (int i = 0; i < 10; i++)
        CHECK_NEAR(buckets[i], rounds / 10, 250); /* sigma 42 */
}

/* Sum of the weights of a thread that uses that much CPU time and ends. */
static uint64_t weights_of(struct sampled_thread *thread, uint64_t cpu_ns, uint64_t nominal) {
    uint64_t sum = 0;
    period_begin(thread, nominal);
    for (uint64_t at = period_phase(thread, thread->period_ns); at <= cpu_ns;
         at += thread->period_ns) {
        sum += thread->period_ns;
        period_renew(thread, nominal);
    }
    return sum;
}

/* E14, E18: many short threads have many unfinished periods. */
TEST(threads_of_any_length_are_counted_without_bias) {
    const uint64_t nominal = 1000000;
    const uint64_t lengths[] = {100000, 700000, 1460000, 3200000, 10500000, 21000000};
    const int threads = 100000;
    struct sampled_thread thread = {.random = 88172645463325252u};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        double sum = 0;
        for (int k = 0; k < threads; k++)
            sum += (double)weights_of(&thread, lengths[i], nominal);
        /* Each thread's sum is off by less than a period, 0.5 on average, so sigma of the mean is
         * 0.0016 periods. */
        CHECK_NEAR(sum / threads / (double)nominal, (double)lengths[i] / (double)nominal, 0.008);
    }
}

/* Sum of the weights of a thread whose timer counts only 9/10 of its CPU time. */
static uint64_t drifting_weights_of(struct sampled_thread *thread, uint64_t cpu_ns,
                                    uint64_t nominal) {
    period_begin(thread, nominal);
    uint64_t sum = 0, seen = period_phase(thread, thread->period_ns),
             credit = thread->period_ns - seen;
    thread->is_first_tick = true;
    while (seen + seen / 9 <= cpu_ns) {
        uint64_t due = seen + seen / 9 + credit - sum, periods = period_count(thread, due);
        sum += periods * thread->period_ns;
        if (periods > 0)
            period_renew(thread, nominal);
        thread->is_first_tick = false;
        seen += periods > 0 ? thread->period_ns
                            : thread->period_ns - due; /* an early tick: the rest of the period */
    }
    return sum;
}

/* E18: on average, weights include what the CPU clock counts and the timer does not. */
TEST(drift_between_clock_and_ticks_is_corrected) {
    const uint64_t nominal = 1000000;
    const uint64_t lengths[] = {1460000, 3200000, 10500000, 42000000};
    const int threads = 100000;
    struct sampled_thread thread = {.random = 88172645463325252u};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        double sum = 0;
        for (int k = 0; k < threads; k++)
            sum += (double)drifting_weights_of(&thread, lengths[i], nominal);
        /* Not exactly: the last period is a tenth longer than the first one was taken to be. */
        CHECK_NEAR(sum / threads / (double)nominal, (double)lengths[i] / (double)nominal, 0.1);
    }
}
