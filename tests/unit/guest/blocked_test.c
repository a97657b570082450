/* SPDX-License-Identifier: Apache-2.0
 *
 * Wall-clock sampling: threads that are blocked at known places, undisturbed. */
#include "tests/unit/guest/scene.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <time.h>

enum { MUTEX, READ, CONDITION, POLL, SLEEP, PLACES };
enum { IN_TWO = 3, HALF = 4, STAYS = 5 };

struct waits {
    struct scene scene;
    struct line places[PLACES], stays[STAYS];
};

static void run_waits(struct waits *waits, uint64_t tick_ns, uint64_t wall_ns) {
    struct scene *scene = &waits->scene;
    waits->places[0] = scene_begin(scene, "waits", 1500);
    for (int i = 1; i < PLACES; i++)
        waits->places[i] = scene_line(scene);
    scene->guest.wall_period_ns = wall_ns;
    scene_capture(scene, tick_ns, BEST);
    waits->stays[0] = scene_pump_line(scene);
    for (int i = 1; i < STAYS; i++)
        waits->stays[i] = scene_pump_line(scene);
    fake_stop(&scene->guest);
}

static double blocked_in(const struct waits *waits, int stay, int place) {
    return (double)fake_blocked_in(&waits->scene.guest, (uint32_t)waits->stays[stay].a,
                                   (uint64_t)waits->places[place].a,
                                   (uint64_t)waits->places[place].b);
}

/* Time on the CPU, or waiting for one. */
static double not_blocked(const struct waits *waits, int stay) {
    uint32_t tid = (uint32_t)waits->stays[stay].a;
    const struct fake_guest *guest = &waits->scene.guest;
    return (double)(fake_weight(guest, tid) + fake_unseen_sum(guest, tid, RING_UNSEEN_WAITING));
}

/* All time recorded for a thread: on the CPU, blocked, waiting for a CPU. */
static double wall_of(const struct waits *waits, int stay) {
    uint32_t tid = (uint32_t)waits->stays[stay].a;
    const struct fake_guest *guest = &waits->scene.guest;
    return (double)(fake_weight(guest, tid) + fake_blocked(guest, tid) +
                    fake_unseen_sum(guest, tid, 0));
}

static double wall_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

TEST(threads_are_seen_where_they_are_blocked) {
    struct waits waits;
    run_waits(&waits, HZ(999), HZ(99));
    for (int i = MUTEX; i <= CONDITION; i++) { /* once woken, they may wait for a CPU */
        double truth = (double)waits.stays[i].b, blocked = blocked_in(&waits, i, i);
        CHECK_NEAR((blocked + not_blocked(&waits, i)) / truth, 1.0, 0.02);
        CHECK_NEAR(blocked / truth, 1.0, 0.1);
    }
    /* They wait 15 ms and 5 ms. With about 150 looks, sigma of the share is 3.5 points. On a busy
     * machine the thread also waits for a CPU after each call; a look in that time finds no stack,
     * and the time in the call counts for the next one. */
    double polled = blocked_in(&waits, IN_TWO, POLL), slept = blocked_in(&waits, IN_TWO, SLEEP);
    uint32_t tid = (uint32_t)waits.stays[IN_TWO].a;
    double waited = (double)fake_unseen_sum(&waits.scene.guest, tid, RING_UNSEEN_WAITING);
    double misplaced = waited / (double)waits.stays[IN_TWO].b;
    printf("polled %.2f of the time, waited for a CPU %.2f\n", polled / (polled + slept),
           misplaced);
    CHECK_NEAR(polled / (polled + slept), 0.75, 0.14 + misplaced);
    double other = not_blocked(&waits, IN_TWO);
    CHECK_NEAR((polled + slept + other) / (double)waits.stays[IN_TWO].b, 1.0, 0.04);
    CHECK_INT(fake_drops(&waits.scene.guest), ==, 0);
    scene_end(&waits.scene);
}

TEST(cpu_time_and_blocked_time_sum_to_the_wall_clock) {
    struct waits waits;
    run_waits(&waits, HZ(999), HZ(99));
    for (int i = 0; i < STAYS; i++)
        CHECK_NEAR(wall_of(&waits, i) / (double)waits.stays[i].b, 1.0, 0.02);
    double half = (double)fake_weight(&waits.scene.guest, (uint32_t)waits.stays[HALF].a);
    CHECK_NEAR(half / (double)waits.stays[HALF].b, 0.3,
               0.25); /* other programs may use the CPU, too */
    scene_end(&waits.scene);
}

TEST(a_rate_too_high_for_the_budget_still_sums_to_the_wall_clock) {
    struct waits waits;
    run_waits(&waits, HZ(99), HZ(10000));
    for (int i = MUTEX; i <= CONDITION; i++)
        CHECK_NEAR(wall_of(&waits, i) / (double)waits.stays[i].b, 1.0, 0.03);
    scene_end(&waits.scene);
}

/* E11: threads that do not run are not signalled. */
TEST(waiting_calls_are_not_interrupted_by_wall_clock_sampling) {
    struct scene scene;
    scene_begin(&scene, "eintr", 1000);
    scene.guest.wall_period_ns = HZ(999);
    scene_capture(&scene, HZ(999), BEST);
    struct line interrupted = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_INT(interrupted.a, ==, 0);
    CHECK_INT(scene.guest.blocked_count, >, 100);
    scene_end(&scene);
}

/* Threads that do not run after the capture has begun; the stacks of some are larger than one copy.
 * The capture lasts longer than the 0.8 s that the program measures, and shorter than what this
 * test measures. */
TEST(threads_that_never_run_are_seen) {
    struct scene scene;
    struct line place = scene_begin(&scene, "places", 5);
    scene_line(&scene);
    scene.guest.wall_period_ns = HZ(99);
    double begin_ns = wall_ns();
    scene_capture(&scene, HZ(1), BEST);
    struct line slept = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    double outer_ns = wall_ns() - begin_ns;
    double seen = (double)fake_blocked_in(&scene.guest, 0, (uint64_t)place.a, (uint64_t)place.b);
    printf("seen %.3f s, slept 5 x %.3f, outside 5 x %.3f\n", seen / 1e9, (double)slept.a / 1e9,
           outer_ns / 1e9);
    CHECK(seen > 4.75 * (double)slept.a);
    CHECK(seen < 5.25 * outer_ns);
    for (size_t i = 0; i < scene.guest.blocked_count; i++)
        CHECK(scene.guest.blocked[i].end == RING_END_ROOT ||
              scene.guest.blocked[i].end == RING_END_DEPTH);
    scene_end(&scene);
}

/* Captures idle threads until they have been seen for that many thread-seconds. The pause between
 * two looks at an idle thread doubles from 10 to 200 ms, so each thread has few looks at first, and
 * then five a second. Without that, a hundred threads would have several times as many. */
static void watch_idle_threads(int threads, double wanted_s) {
    struct scene scene;
    struct line made = scene_begin(&scene, "idle", threads);
    CHECK_INT(made.a, ==, threads);
    scene.guest.wall_period_ns = HZ(99);
    scene_capture(&scene, HZ(99), BEST);
    scene_pump_line(&scene);
    for (int i = 0; i < 60 && (double)fake_blocked(&scene.guest, 0) < wanted_s * 1e9; i++)
        fake_pump(&scene.guest, 500); /* the first looks take longer on a busy machine */
    fake_stop(&scene.guest);
    CHECK_INT(fake_drops(&scene.guest), ==, 0);
    double thread_s = (double)fake_blocked(&scene.guest, 0) / 1e9;
    printf("%zu records of %.0f thread-seconds; the guest took %.1f ms of CPU\n",
           scene.guest.blocked_count, thread_s, (double)scene.guest.account.guest_cpu_ns / 1e6);
    CHECK(thread_s > wanted_s);
    CHECK((double)scene.guest.blocked_count < 8 * threads + 5.5 * thread_s);
    scene_end(&scene);
}

TEST(a_thousand_idle_threads_cost_little) {
    watch_idle_threads(1000, 1500);
}

TEST(the_longer_a_thread_is_idle_the_less_often_it_is_looked_at) {
    watch_idle_threads(100, 600);
}

TEST(blocked_threads_are_not_observed_unless_requested) {
    struct scene scene;
    scene_begin(&scene, "idle", 3);
    scene_capture(&scene, HZ(99), BEST);
    scene_pump_line(&scene);
    fake_pump(&scene.guest, 100);
    CHECK_INT(scene.guest.blocked_count, ==, 0);
    scene.guest.wall_period_ns = HZ(99);
    fake_configure(&scene.guest, HZ(99), BEST);
    fake_pump(&scene.guest, 300);
    size_t first = scene.guest.blocked_count;
    CHECK_INT(first, >, 3);
    scene.guest.wall_period_ns = 0;
    fake_configure(&scene.guest, HZ(99), BEST);
    size_t last = scene.guest.blocked_count;
    fake_pump(&scene.guest, 200);
    CHECK_INT(scene.guest.blocked_count, ==, last);
    fake_stop(&scene.guest);
    scene_end(&scene);
}
