/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether samples are accurate: shares, sums, short threads, and work in step with the kernel's
 * tick. */
#include "tests/unit/guest/scene.h"

#include "tests/unit/check.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

/* CPU time that is in samples or was reported as unseen. */
static double accounted(const struct fake_guest *guest) {
    return (double)(fake_weight(guest, 0) + fake_unseen_sum(guest, 0, 0));
}

/* Difference, in percentage points, between a part's share of the samples and its true share. */
static double share_error(const struct fake_guest *guest, struct line part, double truth) {
    double weight = (double)fake_weight_in(guest, (uint64_t)part.a, (uint64_t)part.b);
    return 100 * (weight / (double)fake_weight(guest, 0) - truth);
}

static void check_shares(struct speed speed, uint64_t period_ns, int ms, double tolerance) {
    struct scene scene;
    struct line ten = scene_begin_at(&scene, speed, "shares", ms);
    struct line twenty = scene_line(&scene), seventy = scene_line(&scene);
    scene_capture(&scene, period_ns, PERF);
    struct line used = scene_pump_line(&scene), more = scene_line(&scene);
    fake_stop(&scene.guest);
    double all = (double)(used.b + more.a + more.b);
    CHECK_NEAR(share_error(&scene.guest, ten, (double)used.b / all), 0, tolerance);
    CHECK_NEAR(share_error(&scene.guest, twenty, (double)more.a / all), 0, tolerance);
    CHECK_NEAR(share_error(&scene.guest, seventy, (double)more.b / all), 0, tolerance);
    CHECK_INT(fake_drops(&scene.guest), ==, 0);
    CHECK_INT(fake_nested(&scene.guest) * 100, <=, scene.guest.sample_count);
    /* sigma of the sum: half a period per thread and the noise of the phase */
    double sigma = 4 * (double)period_ns;
    CHECK_NEAR(accounted(&scene.guest), (double)used.a, 0.02 * (double)used.a + sigma);
    scene_end(&scene);
}

TEST(shares_come_out_at_999_hz) {
    check_shares(USUAL_SPEED, HZ(999), 700, 4.0); /* 2,100 samples: sigma of the 70 % is 1.0 */
}

TEST(shares_come_out_at_99_hz) {
    check_shares(USUAL_SPEED, HZ(99), 1500, 9.0); /* 450 samples: sigma 2.2 */
}

/* issue 11: the time that a part spends reading the clock belongs to that part. */
TEST(shares_come_out_when_a_loop_is_slow) {
    check_shares(SLOW_LOOP, HZ(999), 700, 4.0);
}

TEST(shares_come_out_when_a_loop_is_fast) {
    check_shares(FAST_LOOP, HZ(999), 700, 4.0);
}

TEST(shares_come_out_when_the_clock_is_slow) {
    check_shares(SLOW_CLOCK, HZ(999), 700, 4.0);
}

TEST(ten_thousand_hz_are_delivered) {
    struct scene scene;
    scene_begin(&scene, "shares", 200);
    scene_line(&scene), scene_line(&scene);
    scene_capture(&scene, HZ(10000), PERF);
    struct line used = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    double expected = (double)used.a / (double)HZ(10000);
    CHECK_NEAR((double)scene.guest.sample_count / expected, 0.9, 0.2);
    CHECK_NEAR(accounted(&scene.guest) / (double)used.a, 1.0, 0.03);
    scene_end(&scene);
}

/* The weight of the threads' function, divided by its true CPU time. */
static double short_threads(int count, uint64_t period_ns) {
    struct scene scene;
    struct line life = scene_begin(&scene, "threads", count);
    scene_capture(&scene, period_ns, PERF);
    struct line used = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    double seen = (double)fake_weight_in(&scene.guest, (uint64_t)life.a, (uint64_t)life.b);
    printf("seen %.3f of %.3f ms, %.3f outside\n", seen / 1e6, (double)used.a / 1e6,
           ((double)fake_weight(&scene.guest, 0) - seen) / 1e6);
    scene_end(&scene);
    return seen / (double)used.a;
}

/* E14. */
TEST(threads_of_one_millisecond_are_counted_at_999_hz) {
    CHECK_NEAR(short_threads(1600, HZ(999)), 1.0, 0.10);
}

TEST(threads_of_one_millisecond_are_counted_at_99_hz) {
    CHECK_NEAR(short_threads(1600, HZ(99)), 1.0, 0.30); /* about 180 samples: sigma 0.075 */
}

/* E14. CPU time before the clock is armed counts for the thread's start, and a first tick that
 * comes at once must not delay the thread. Otherwise both count for the first function. */
TEST(the_first_function_of_a_short_thread_has_its_own_share) {
    struct scene scene;
    struct line ten = scene_begin(&scene, "short_shares", 1200);
    struct line twenty = scene_line(&scene), seventy = scene_line(&scene);
    scene_capture(&scene, HZ(3999), PERF);
    struct line used = scene_pump_line(&scene), more = scene_line(&scene);
    fake_stop(&scene.guest);
    double parts[3] = {
        (double)fake_weight_in(&scene.guest, (uint64_t)ten.a, (uint64_t)ten.b),
        (double)fake_weight_in(&scene.guest, (uint64_t)twenty.a, (uint64_t)twenty.b),
        (double)fake_weight_in(&scene.guest, (uint64_t)seventy.a, (uint64_t)seventy.b)};
    double all = (double)(used.b + more.a + more.b), sum = parts[0] + parts[1] + parts[2];
    /* about 4,800 samples: sigma of the 10 % is 0.43 */
    CHECK_NEAR(100 * (parts[0] / sum - (double)used.b / all), 0, 2.0);
    scene_end(&scene);
}

/* E15. */
TEST(work_in_step_with_the_tick_is_counted) {
    struct scene scene;
    scene_begin(&scene, "in_step", 500);
    scene_capture(&scene, HZ(249), PERF);
    struct line used = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_NEAR(accounted(&scene.guest) / (double)used.a, 1.0, 0.08);
    scene_end(&scene);
}

TEST(time_in_system_calls_is_accounted) {
    struct scene scene;
    scene_begin(&scene, "kernel", 1000);
    scene_capture(&scene, HZ(999), BEST);
    struct line used = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_NEAR(accounted(&scene.guest) / (double)used.a, 1.0, 0.03);
    scene_end(&scene);
}

TEST(timer_weights_sum_to_the_cpu_clock) {
    struct scene scene;
    scene_begin(&scene, "kernel", 1000);
    scene_capture(&scene, HZ(999), TIMER);
    CHECK_STR(scene.guest.state.clock, "timer");
    struct line used = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_INT(scene.guest.sample_count, <, 1200);
    CHECK_NEAR(accounted(&scene.guest) / (double)used.a, 1.0, 0.03);
    scene_end(&scene);
}

TEST(a_process_clock_accounts_for_the_process) {
    struct scene scene;
    scene_begin(&scene, "kernel", 1000);
    scene_capture(&scene, HZ(99), ITIMER);
    CHECK_STR(scene.guest.state.clock, "itimer");
    struct line used = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_NEAR(accounted(&scene.guest) / (double)used.a, 1.0, 0.05);
    scene_end(&scene);
}

/* E13. */
TEST(a_raw_clone_is_found_and_its_earlier_time_is_reported) {
    struct scene scene;
    scene_begin(&scene, "clone", 1500);
    scene_capture(&scene, HZ(499), BEST);
    struct line used = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    uint64_t seen = fake_weight(&scene.guest, (uint32_t)used.b);
    uint64_t unseen = fake_unseen_sum(&scene.guest, (uint32_t)used.b, RING_UNSEEN_SHORT);
    CHECK_INT(seen, >, used.a / 4);
    CHECK_NEAR((double)(seen + unseen) / (double)used.a, 1.0, 0.1);
    scene_end(&scene);
}

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static uint64_t past_of(struct fake_guest *guest) {
    return fake_unseen_sum(guest, (uint32_t)guest->hello.pid, RING_UNSEEN_BEFORE);
}

TEST(what_was_used_before_the_first_clock_is_reported_once_and_only_if_asked) {
    struct scene scene;
    int64_t begin_ns = now_ns();
    scene_begin(&scene, "threads", 0);
    scene.guest.counts_past = true;
    scene_capture(&scene, HZ(99), BEST);
    fake_stop(&scene.guest);
    bool is_young = now_ns() - begin_ns < 1000000000;
    uint64_t past_ns = past_of(&scene.guest);
    fake_configure(&scene.guest, HZ(99), BEST);
    fake_stop(&scene.guest);
    CHECK_INT(past_of(&scene.guest), ==, past_ns);
    scene_pump_line(&scene);
    scene_end(&scene);
    scene_begin(&scene, "threads", 0);
    scene_capture(&scene, HZ(99), BEST);
    fake_stop(&scene.guest);
    CHECK_INT(past_of(&scene.guest), ==, 0);
    scene_pump_line(&scene);
    scene_end(&scene);
    if (!is_young)
        check_skip("this machine is too slow to start a program within a second");
    CHECK_INT(past_ns, >, 0);
}

TEST(the_rate_changes_while_it_runs) {
    struct scene scene;
    scene_begin(&scene, "shares", 600);
    scene_line(&scene), scene_line(&scene);
    scene_capture(&scene, HZ(10), PERF);
    fake_pump(&scene.guest, 300);
    fake_configure(&scene.guest, HZ(2000), PERF);
    CHECK(scene.guest.state.running);
    /* At 10 Hz the program's 0.6 s of CPU time would give 6 samples, however long they take. */
    size_t before = scene.guest.sample_count;
    for (int i = 0; i < 50 && scene.guest.sample_count - before <= 100; i++)
        fake_pump(&scene.guest, 200);
    CHECK_INT(scene.guest.sample_count - before, >, 100);
    struct line used = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_NEAR(accounted(&scene.guest) / (double)used.a, 1.0,
               0.35); /* 10 Hz: few samples at first */
    scene_end(&scene);
}

/* E18. */
TEST(the_account_agrees_with_the_samples) {
    struct scene scene;
    scene_begin(&scene, "shares", 500);
    scene_line(&scene), scene_line(&scene);
    scene_capture(&scene, HZ(499), BEST);
    scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_NEAR(accounted(&scene.guest) / (double)scene.guest.account.process_cpu_ns, 1.0, 0.05);
    CHECK_INT(scene.guest.account.guest_cpu_ns, >, 0);
    CHECK_INT(scene.guest.account.guest_cpu_ns, <, scene.guest.account.process_cpu_ns / 5);
    CHECK_INT(scene.guest.rings->handler_count, >=, scene.guest.sample_count);
    scene_end(&scene);
}

/* E9. */
TEST(time_with_a_blocked_signal_is_reported) {
    struct scene scene;
    scene_begin(&scene, "blocked", 800);
    scene_capture(&scene, HZ(499), BEST);
    struct line used = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    uint64_t unseen = fake_unseen_sum(&scene.guest, (uint32_t)used.b, RING_UNSEEN_BLOCKED);
    CHECK_NEAR((double)(unseen + fake_weight(&scene.guest, (uint32_t)used.b)) / (double)used.a, 1.0,
               0.1);
    CHECK_INT(unseen, >, used.a / 2);
    scene_end(&scene);
}

/* A profile of leaves must not look like a program without callers. */
TEST(tables_that_cannot_be_loaded_are_counted_in_the_note_with_their_error) {
    struct scene scene;
    scene_begin(&scene, "steady", 300);
    scene.guest.has_bad_tables = true;
    scene_capture(&scene, HZ(99), BEST);
    CHECK(strstr(scene.guest.state.note,
                 " unwind tables could not be loaded, so callers are missing: EINVAL"));
    scene_pump_line(&scene);
    fake_stop(&scene.guest);
    scene_end(&scene);
}
