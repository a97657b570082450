/* SPDX-License-Identifier: Apache-2.0
 *
 * The hostile program under the guest at three rates: no hang, no crash, no changed result, and it
 * gets on as without. STRESS_SECONDS makes it longer; arguments choose tests. */
#include "tests/unit/guest/scene.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#define PROGRAM "tests/stress/hostile"
#define LIBRARY "tests/stress/libhostile.so"

struct result {
    long long loads, throws;
    double samples, expected;
};

static const char *seconds(void) {
    const char *asked = getenv("STRESS_SECONDS");
    return asked ? asked : "4";
}

static struct result run(uint64_t period_ns, sonde_guest_v1_ClockChoice clock) {
    struct scene scene;
    struct result result = {0};
    char *const argv[] = {PROGRAM, (char *)seconds(), LIBRARY, NULL};
    memset(&scene, 0, sizeof scene);
    fake_open(&scene.fake);
    fake_spawn(&scene.fake, argv, &scene.child);
    fake_accept_pid(&scene.fake, &scene.guest, scene.child.pid);
    scene_line(&scene);
    if (period_ns)
        scene_capture(&scene, period_ns, clock);
    else
        fake_poke(&scene.child);
    struct line loads = scene_pump_long(&scene, atoi(seconds()) + 30), throws = scene_line(&scene);
    CHECK_INT(loads.b, ==, 0); /* wrong results */
    CHECK_INT(throws.b, <, 5); /* seconds without progress */
    result.loads = loads.a;
    result.throws = throws.a;
    if (period_ns) {
        fake_stop(&scene.guest);
        result.samples = (double)scene.guest.sample_count;
        printf("%llu Hz: %lld loads, %lld throws, %.0f samples, %u generations, %llu drops\n",
               (unsigned long long)(1000000000ull / period_ns), loads.a, throws.a, result.samples,
               scene.guest.generations, (unsigned long long)fake_drops(&scene.guest));
        CHECK_INT(scene.guest.sample_count, >, 20);
    }
    int status = fake_wait(&scene.child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    fake_release(&scene.guest);
    fake_close(&scene.fake);
    return result;
}

static struct result without(void) {
    static struct result once;
    if (!once.loads)
        once = run(0, BEST);
    return once;
}

/* Half of the unprofiled progress on a quiet machine; a noisy one may take more. */
static void check_progress(struct result with) {
    struct result plain = without();
    printf("without: %lld loads, %lld throws\n", plain.loads, plain.throws);
    CHECK_INT(with.throws * 5, >, plain.throws);
    CHECK_INT(with.loads * 10, >, plain.loads);
}

TEST(survives_99_hz) {
    check_progress(run(HZ(99), BEST));
}

TEST(survives_999_hz) {
    check_progress(run(HZ(999), BEST));
}

TEST(survives_10000_hz) {
    check_progress(run(HZ(10000), BEST));
}

TEST(survives_timers) {
    check_progress(run(HZ(999), TIMER));
}
