/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples the hostile program at three rates. It must not hang, crash or compute a wrong result,
 * and it must make at least half as much progress as without the guest. STRESS_SECONDS sets the
 * duration (default 4); arguments select tests. */
#include "tests/unit/guest/scene.h"

#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define PROGRAM "tests/stress/hostile"
#define LIBRARY "tests/stress/libhostile.so"

struct result {
    long long loads, throws;
    double cpu_s; /* of the program, from start to exit */
};

/* The CPU time of all children that have been waited for. */
static double children_cpu_s(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_CHILDREN, &usage) == 0);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* The CPU time in the samples and in the reported gaps, as a share of the process's CPU clock. */
static double coverage(const struct fake_guest *guest) {
    double reported = (double)(fake_weight(guest, 0) + fake_unseen_sum(guest, 0, 0));
    return reported / (double)guest->account.process_cpu_ns;
}

static const char *seconds(void) {
    const char *asked = getenv("STRESS_SECONDS");
    return asked ? asked : "4";
}

static struct result run(uint64_t period_ns, sonde_guest_v1_ClockChoice clock) {
    struct scene scene;
    struct result result = {0};
    double cpu_before = children_cpu_s();
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
        printf("%llu Hz: %lld loads, %lld throws, %zu samples for %.3f of %.1f s, %u generations, "
               "%llu drops\n",
               (unsigned long long)(1000000000ull / period_ns), loads.a, throws.a,
               scene.guest.sample_count, coverage(&scene.guest),
               (double)scene.guest.account.process_cpu_ns / 1e9, scene.guest.generations,
               (unsigned long long)fake_drops(&scene.guest));
        CHECK_INT(scene.guest.sample_count, >, 20);
        CHECK_NEAR(coverage(&scene.guest), 1.0, 0.1);
        double shown_ns = (double)(scene.guest.sample_count * period_ns);
        if (strcmp(scene.guest.state.clock, "perf-sigtrap") == 0) /* no thread stopped ticking */
            CHECK_NEAR(shown_ns / (double)scene.guest.account.process_cpu_ns, 1.0, 0.4);
    }
    fake_poke(&scene.child);
    int status = fake_wait(&scene.child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    result.cpu_s = children_cpu_s() - cpu_before;
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

/* E1: for the same CPU time, the program makes at least a fifth of the progress it makes
 * unprofiled; usually it is four fifths, but with busy neighbours the threads wait for the loader's
 * lock. Progress is per CPU time because the machine may be busy; loads and throws are added
 * because the scheduler may prefer either kind of thread. */
static void check_progress(struct result with) {
    struct result plain = without();
    double loads = (double)with.loads / with.cpu_s / ((double)plain.loads / plain.cpu_s);
    double throws = (double)with.throws / with.cpu_s / ((double)plain.throws / plain.cpu_s);
    printf("for the same CPU time: %.2f of the loads, %.2f of the throws\n", loads, throws);
    CHECK_NEAR(loads + throws, 100.4, 100); /* at least 0.4 */
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
