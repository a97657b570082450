/* SPDX-License-Identifier: Apache-2.0
 *
 * The clocks of a CPU in simulated time, beside programs that work in rhythms. */
#include "service/host/rings/cpu_clocks.h"

#include "tests/unit/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define S        1000000000ull
#define LOOK_NS  5000000ull /* how often the engine looks which clocks are due */
#define CYCLE_NS 500000ull
#define LONG_NS  350000ull /* of each cycle: its longest part */
#define RUNS     40

static uint64_t now_ns, seed;

/* Takes the place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *now) {
    *now = (struct timespec){(time_t)(now_ns / S), (long)(now_ns % S)};
    return 0;
}

static uint64_t draw(void *context, uint64_t low, uint64_t high) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return low + (seed >> 11) % (high - low + 1);
}

/* What was sampled of a program. Each tick delays its work by delay_ns. late_ns is the weight for a
 * capture that began at since_ns. */
struct sampled {
    uint64_t ticks, weight_ns, long_ns, delay_ns, late_ns, since_ns;
};

static uint64_t next_tick_ns(const struct cpu_clock *clock, uint64_t after_ns) {
    uint64_t ran = after_ns - clock->start_ns;
    return clock->start_ns + (ran / clock->period_ns + 1) * clock->period_ns;
}

/* Advances the time by a look, tick by tick. */
static void step(struct cpu_clocks *clocks, uint64_t period_ns, struct sampled *sampled) {
    uint64_t end_ns = now_ns + LOOK_NS, at_ns = now_ns;
    for (;;) {
        uint32_t first = 0;
        for (uint32_t i = 1; i < clocks->each; i++)
            if (next_tick_ns(&clocks->timers[i].clock, at_ns) <
                next_tick_ns(&clocks->timers[first].clock, at_ns))
                first = i;
        at_ns = next_tick_ns(&clocks->timers[first].clock, at_ns);
        if (at_ns > end_ns)
            break;
        struct host_sample sample = {.weight_ns = cpu_clocks_created_ns(clocks, period_ns, first)};
        cpu_clocks_weigh(clocks, 0, at_ns, &sample);
        uint64_t weight_ns = sample.weight_ns;
        bool is_renewed = sample.renewed_weight_ns && sample.renewed_ns <= sampled->since_ns;
        sampled->late_ns += is_renewed ? sample.renewed_weight_ns : weight_ns;
        uint64_t worked_ns = at_ns - sampled->ticks++ * sampled->delay_ns;
        sampled->weight_ns += weight_ns;
        if (worked_ns % CYCLE_NS >= CYCLE_NS - LONG_NS)
            sampled->long_ns += weight_ns;
    }
    now_ns = end_ns;
}

static void run(struct cpu_clocks *clocks, uint64_t period_ns, uint64_t ns,
                struct sampled *sampled) {
    uint64_t begin_ns = now_ns;
    while (now_ns < begin_ns + ns) {
        step(clocks, period_ns, sampled);
        cpu_clocks_renew(clocks, period_ns);
    }
}

/* With a former period, clocks that have run at that. */
static struct sampled sample(uint64_t former_ns, uint64_t period_ns, uint64_t ns,
                             uint64_t delay_ns) {
    struct sampled sampled = {.delay_ns = delay_ns}, before = {0};
    struct cpu_clocks clocks;
    CHECK(cpu_clocks_create(&clocks, 1, former_ns ? former_ns : period_ns, draw, NULL));
    int fd = dup(0); /* no perf event: its ioctls fail */
    for (uint32_t i = 0; i < clocks.each; i++)
        cpu_clocks_add(&clocks, 0, i, fd);
    now_ns += 100 * S + draw(NULL, 0, S);
    if (former_ns) {
        cpu_clocks_start(&clocks, former_ns, true);
        run(&clocks, former_ns, 5 * S + draw(NULL, 0, S), &before);
    }
    sampled.since_ns = now_ns;
    cpu_clocks_start(&clocks, period_ns, !former_ns);
    run(&clocks, period_ns, ns, &sampled);
    close(fd);
    cpu_clocks_finish(&clocks);
    return sampled;
}

/* The root mean square of the longest part's error, in binomial standard deviations. */
static double error_of(uint64_t hz, uint64_t delay_ns) {
    double squares = 0, truth = (double)LONG_NS / CYCLE_NS;
    for (int run = 0; run < RUNS; run++) {
        struct sampled sampled = sample(0, S / hz, 6 * S, delay_ns);
        double share = (double)sampled.long_ns / (double)sampled.weight_ns;
        squares += pow(share - truth, 2) * (double)(6 * hz) / (truth * (1 - truth));
    }
    return sqrt(squares / RUNS);
}

TEST(shares_of_a_rhythm_are_as_exact_as_those_of_independent_samples) {
    static const uint64_t rates[] = {19, 99, 250, 499, 997, 999, 1000, 4999};
    seed = 1;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        double still = error_of(rates[i], 0), delayed = error_of(rates[i], 10000);
        printf("  %4d Hz: %.2f sigma, %.2f with work that ticks delay\n", (int)rates[i], still,
               delayed);
        CHECK(still < 1.5 && delayed < 1.5); /* of 40 runs: 1 +- 0.11 */
    }
}

TEST(clocks_together_tick_as_often_as_one_and_weigh_as_much_as_the_time) {
    for (uint64_t hz = 19; hz <= 4999; hz += 498) {
        struct sampled sampled = sample(0, S / hz, 20 * S, 0);
        CHECK_NEAR((double)sampled.ticks, 20.0 * (double)hz, 0.05 * 20.0 * (double)hz + 30);
        CHECK_NEAR((double)sampled.weight_ns, 20.0 * (double)S,
                   0.01 * 20.0 * (double)S + 3e9 / (double)hz);
    }
}

TEST(a_capture_that_raises_the_rate_of_a_recording_counts_none_of_the_time_before) {
    seed = 1;
    for (uint64_t hz = 99; hz <= 999; hz += 300) {
        double sum_ns = 0, all_ns = 0;
        for (int run = 0; run < RUNS; run++) {
            struct sampled sampled = sample(S / 19, S / hz, S, 0);
            sum_ns += (double)sampled.late_ns;
            all_ns += (double)sampled.weight_ns;
        }
        CHECK_NEAR(sum_ns / RUNS, (double)S, 0.02 * (double)S);
        CHECK_INT(all_ns / RUNS, >, 1.1 * (double)S); /* the recording's own time */
    }
}

TEST(the_first_tick_comes_after_about_a_period) {
    struct sampled sampled = sample(0, S / 10, S / 5, 0);
    CHECK_INT(sampled.ticks, >=, 1);
    CHECK_INT(sampled.ticks, <=, 3);
}

TEST(a_slow_stream_and_one_of_many_cpus_have_one_clock_per_cpu) {
    struct cpu_clocks clocks;
    CHECK(cpu_clocks_create(&clocks, 2, 10 * S, draw, NULL));
    CHECK_INT(clocks.each, ==, 1);
    CHECK_INT(cpu_clocks_created_ns(&clocks, 10 * S, 0), <=, 10 * S); /* what perf_event.h takes */
    cpu_clocks_finish(&clocks);
    CHECK(cpu_clocks_create(&clocks, 2 * CPU_CLOCKS_ALL, S / 99, draw, NULL));
    CHECK_INT(clocks.each, ==, 1);
    cpu_clocks_finish(&clocks);
}
