/* SPDX-License-Identifier: Apache-2.0
 *
 * Weights add up to the CPU time with each clock, and work in step with the period has its true
 * shares. */
#include "tests/unit/guest/scene.h"

#include "tests/unit/check.h"

#include <math.h>

static double accounted(const struct fake_guest *guest) {
    return (double)(fake_weight(guest, 0) + fake_unseen_sum(guest, 0, 0));
}

/* E18. ends_ns: a tick's worth of time may be missing at either end. */
static void check_sum(const char *verb, sonde_guest_v1_ClockChoice clock, uint64_t period_ns,
                      double ends_ns) {
    struct scene scene;
    scene_begin(&scene, verb, 1500);
    scene_capture(&scene, period_ns, clock);
    struct line used = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    double truth = (double)used.a;
    CHECK_NEAR(accounted(&scene.guest), truth, 0.02 * truth + ends_ns);
    scene_end(&scene);
}

TEST(perf_weights_are_the_cpu_clock_within_two_percent) {
    check_sum("kernel", PERF, HZ(999), 2e6);
}

TEST(timer_weights_are_the_cpu_clock_within_two_percent) {
    check_sum("kernel", TIMER, HZ(99), 20e6);
}

TEST(process_clock_weights_are_the_cpu_clock_within_two_percent) {
    check_sum("kernel", ITIMER, HZ(99), 20e6);
}

/* E16. The program's cycle is 1 ms, and the period is one or four cycles. */
static void check_aliased(struct speed speed, uint64_t period_ns, int ms) {
    struct scene scene;
    struct line part[3], used[2];
    part[0] = scene_begin_at(&scene, speed, "shares", ms);
    part[1] = scene_line(&scene), part[2] = scene_line(&scene);
    scene_capture(&scene, period_ns, PERF);
    used[0] = scene_pump_line(&scene), used[1] = scene_line(&scene);
    fake_stop(&scene.guest);
    double truth[3] = {(double)used[0].b, (double)used[1].a, (double)used[1].b};
    double all = truth[0] + truth[1] + truth[2], weight = (double)fake_weight(&scene.guest, 0);
    for (int i = 0; i < 3; i++) {
        double share = truth[i] / all;
        double seen =
            (double)fake_weight_in(&scene.guest, (uint64_t)part[i].a, (uint64_t)part[i].b);
        double sigma = sqrt(share * (1 - share) / (weight / (double)period_ns));
        CHECK_NEAR(seen / weight, share,
                   4 * sigma + 0.005); /* a little time is in none of the parts */
    }
    scene_end(&scene);
}

TEST(work_in_step_with_the_period_has_its_shares_at_1000_hz) {
    check_aliased(USUAL_SPEED, HZ(1000), 500);
}

TEST(work_in_step_with_the_period_has_its_shares_at_250_hz) {
    check_aliased(USUAL_SPEED, HZ(250), 1000);
}

TEST(work_in_step_with_the_period_has_its_shares_when_the_clock_is_slow) {
    check_aliased(SLOW_CLOCK, HZ(1000), 500);
}
