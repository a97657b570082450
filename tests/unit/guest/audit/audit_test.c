/* SPDX-License-Identifier: Apache-2.0
 *
 * E2: a tick calls no allocator, no lock and no loader function, under whatever name. symbols_test
 * checks the same in the archives of the signal-safe code. */
#include "tests/unit/guest/scene.h"

#include "tests/unit/check.h"

static void audit(sonde_guest_v1_ClockChoice clock, uint64_t period_ns, size_t least) {
    struct scene scene = {0};
    char *const argv[] = {"tests/unit/guest/audit/audit", "700", NULL};
    fake_open(&scene.fake);
    fake_spawn(&scene.fake, argv, &scene.child);
    fake_accept_pid(&scene.fake, &scene.guest, scene.child.pid);
    scene_line(&scene);
    scene_capture(&scene, period_ns, clock);
    struct line seen = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_INT(seen.a, ==, 0);
    CHECK_INT(seen.b, ==, 3);
    CHECK_INT(scene.guest.sample_count, >, least);
    scene_end(&scene);
}

TEST(a_tick_of_perf_reaches_no_allocator_and_no_lock) {
    audit(PERF, HZ(4999), 1000);
}

TEST(a_tick_of_the_timer_reaches_no_allocator_and_no_lock) {
    audit(TIMER, HZ(199), 30);
}

TEST(a_tick_of_the_process_clock_reaches_no_allocator_and_no_lock) {
    audit(ITIMER, HZ(199), 30);
}
