/* SPDX-License-Identifier: Apache-2.0
 *
 * max_overhead: the rate follows the cost of samples, and the profile says so. The target's CPU
 * time is that of the test. */
#include "tests/unit/engine/scene.h"

#include <time.h>

static uint64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void burn(uint64_t ns) {
    for (uint64_t end = cpu_ns() + ns; cpu_ns() < end;)
        continue;
}

static uint64_t next_period(struct scene *scene) {
    sonde_guest_v1_ToGuest message;
    fake_expect(&scene->guest, sonde_guest_v1_ToGuest_cpu_config_tag, &message);
    fake_send_state(&scene->guest, message.message.cpu_config.sequence, true, "fake");
    return message.message.cpu_config.period_ns;
}

TEST(a_ceiling_bounds_the_rate_from_the_start) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 10000, .max_overhead = 0.01};
    scene_init(&scene);
    begin(&scene, &spec);
    sonde_guest_v1_CpuConfig config = start_clock(&scene);
    CHECK_INT(config.period_ns, >=, 500000); /* at least 5 us of each sample, at 1 % */
    CHECK_INT(config.period_ns, <=, 2000000);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK(strstr(collect_comment(scene.collected.profiles[0], "overhead ceiling: "),
                 "overhead ceiling: 1.00 % of the target's CPU time;") != NULL);
    CHECK_STR(collect_comment(scene.collected.profiles[0], "rate: "), "rate: 10000 Hz");
    CHECK(scene.collected.metadata[0].frequency_hz < 2100);
    scene_finish(&scene);
}

/* The overhead comment of a capture during which the target used that much CPU time, and sampling 2
 * ms of it. */
static const char *overhead_of(struct scene *scene, uint64_t target_ns) {
    struct engine_cpu_spec spec = {.frequency_hz = 99, .max_overhead = 0.01};
    scene_init(scene);
    begin(scene, &spec);
    start_clock(scene);
    fake_send_account(&scene->guest, 0, 0, 0);
    burn(target_ns);
    fake_send_account(&scene->guest, 2 * MS, 0, 0);
    engine_capture_finish(scene->capture);
    fake_stop(&scene->guest);
    collect_wait_end(&scene->collected);
    return collect_comment(scene->collected.profiles[0], "overhead ceiling: ");
}

TEST(an_idle_target_has_no_share_that_sampling_took) {
    struct scene scene;
    const char *comment = overhead_of(&scene, MS);
    CHECK(strstr(comment, "; the target was idle: ") && strstr(comment, "sampling took "));
    CHECK(strstr(comment, " taken;") == NULL);
    scene_finish(&scene);
    comment = overhead_of(&scene, 200 * MS);
    CHECK(strstr(comment, "; about ") && strstr(comment, " % taken;"));
    CHECK(strstr(comment, "idle") == NULL);
    scene_finish(&scene);
}

TEST(a_rate_below_the_ceiling_is_left_alone) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 99, .max_overhead = 0.01};
    scene_init(&scene);
    begin(&scene, &spec);
    sonde_guest_v1_CpuConfig config = start_clock(&scene);
    CHECK_INT(config.period_ns, ==, 10101010);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK_NEAR(scene.collected.metadata[0].frequency_hz, 99, 0.1);
    scene_finish(&scene);
}

/* With handlers of 200 us the rate falls, with handlers of 1 us it rises again. Samples x period
 * still equals CPU time. */
TEST(the_rate_follows_what_samples_cost) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 10000, .max_overhead = 0.1};
    scene_init(&scene);
    begin(&scene, &spec);
    sonde_guest_v1_CpuConfig config = start_clock(&scene);
    push_many(&scene, 10, burn_leaf, 1);
    settle(&scene);
    burn(200 * MS);
    fake_send_account(&scene.guest, 20 * MS, 20 * MS, 100);
    uint64_t slow = next_period(&scene);
    CHECK_INT(slow, >=, 2000000);
    CHECK_INT(slow, >, config.period_ns);
    push_many(&scene, 10, burn_leaf, 1);
    settle(&scene);
    burn(200 * MS);
    fake_send_account(&scene.guest, 20 * MS + 100000, 20 * MS + 100000, 200);
    uint64_t quick = next_period(&scene);
    CHECK_INT(quick, <, slow / 5);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    const struct sonde_profile *profile = scene.collected.profiles[0];
    CHECK_NEAR((double)sonde_profile_total(profile, 1), 200.0 * MS, 1.0 * MS);
    CHECK_NEAR((double)collect_sum(profile, "burn_leaf"), 2000, 2);
    double mean_hz = scene.collected.metadata[0].frequency_hz;
    CHECK(mean_hz > 1e9 / (double)slow && mean_hz < 10000);
    scene_finish(&scene);
}

TEST(the_lowest_ceiling_holds_for_all_and_ends_with_its_capture) {
    struct scene scene;
    struct collected other;
    struct engine_capture *free_one;
    struct sonde_diag diag;
    struct engine_cpu_spec bounded = {.frequency_hz = 10000, .max_overhead = 0.005};
    struct engine_cpu_spec plain = {.frequency_hz = 10000};
    scene_init(&scene);
    collect_init(&other);
    begin(&scene, &bounded);
    CHECK_INT(engine_capture_cpu(scene.engine, &plain, &collect_events, &other, &free_one, &diag),
              ==, SONDE_OK);
    sonde_guest_v1_CpuConfig config = start_clock(&scene);
    CHECK_INT(config.period_ns, >=, 1000000);
    engine_capture_finish(scene.capture);
    CHECK_INT(next_period(&scene), ==, 100000);
    collect_wait_end(&scene.collected);
    engine_capture_finish(free_one);
    fake_stop(&scene.guest);
    collect_wait_end(&other);
    engine_capture_release(free_one);
    collect_finish(&other);
    scene_finish(&scene);
}
