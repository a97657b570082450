/* SPDX-License-Identifier: Apache-2.0
 *
 * Wall-clock and off-CPU captures: which records each mode counts, and that none is missed at the
 * end. */
#include "tests/unit/engine/scene.h"

#include <time.h>
#include <unistd.h>

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void push_blocked_until(struct scene *scene, uint64_t until_ns, uint64_t ns) {
    const uint64_t pcs[] = PCS(burn_other);
    struct fake_sample sample = {
        .tid = 8, .generation = 1, .weight_ns = ns, .blocked_until_ns = until_ns};
    CHECK(fake_push(&scene->guest, &sample, pcs, 2));
}

static void push_blocked(struct scene *scene, uint64_t ns) {
    push_blocked_until(scene, now_ns(), ns);
}

/* 300 ms on the CPU, 200 blocked, 100 waiting for a CPU, 50 with signals blocked, 40 without a
 * sample. */
static void push_some_of_all(struct scene *scene) {
    usleep(250000);
    push_many(scene, 30, burn_leaf, 7);
    push_blocked(scene, 200 * MS);
    CHECK(fake_push_unseen(&scene->guest, 9, 100 * MS, RING_UNSEEN_WAITING));
    CHECK(fake_push_unseen(&scene->guest, 10, 50 * MS, RING_UNSEEN_BLOCKED));
    CHECK(fake_push_unseen(&scene->guest, 11, 40 * MS, RING_UNSEEN_ASLEEP));
    settle(scene);
}

static const struct sonde_profile *capture_in(struct scene *scene, enum sonde_event_id event,
                                              sonde_guest_v1_CpuConfig *config) {
    struct engine_cpu_spec spec = {.frequency_hz = 1000, .event = event};
    scene_init(scene);
    begin(scene, &spec);
    *config = start_clock(scene);
    push_some_of_all(scene);
    engine_capture_finish(scene->capture);
    fake_stop(&scene->guest);
    collect_wait_end(&scene->collected);
    CHECK_INT(scene->collected.err, ==, SONDE_OK);
    return scene->collected.profiles[0];
}

TEST(a_wall_capture_counts_everything) {
    struct scene scene;
    sonde_guest_v1_CpuConfig config;
    const struct sonde_profile *profile = capture_in(&scene, SONDE_WALL, &config);
    CHECK_INT(config.period_ns, ==, MS);
    CHECK_INT(config.wall_period_ns, ==, MS);
    CHECK_STR(sonde_profile_type(profile, 1).type, "wall");
    CHECK_NEAR((double)sonde_profile_total(profile, 1), 690.0 * MS, 5.0 * MS);
    CHECK_NEAR((double)collect_sum(profile, "burn_leaf"), 300, 1);
    CHECK_NEAR((double)collect_sum(profile, "burn_other"), 200, 1);
    CHECK_NEAR((double)collect_sum(profile, "[waiting for a CPU]"), 100, 1);
    CHECK_NEAR((double)collect_sum(profile, "[blocked, not seen]"), 40, 1);
    CHECK(strstr(collect_comment(profile, "mode: "), "wall clock") != NULL);
    scene_finish(&scene);
}

TEST(an_off_cpu_capture_leaves_cpu_time_out) {
    struct scene scene;
    sonde_guest_v1_CpuConfig config;
    const struct sonde_profile *profile = capture_in(&scene, SONDE_OFF_CPU, &config);
    CHECK_INT(config.period_ns, ==, 10000 * MS);
    CHECK_INT(config.wall_period_ns, ==, MS);
    CHECK_STR(sonde_profile_type(profile, 1).type, "off_cpu");
    CHECK_NEAR((double)sonde_profile_total(profile, 1), 340.0 * MS, 5.0 * MS);
    CHECK_INT(collect_sum(profile, "burn_leaf"), ==, 0);
    scene_finish(&scene);
}

TEST(a_cpu_capture_leaves_other_time_out) {
    struct scene scene;
    sonde_guest_v1_CpuConfig config;
    const struct sonde_profile *profile = capture_in(&scene, SONDE_ON_CPU, &config);
    CHECK_INT(config.wall_period_ns, ==, 0);
    CHECK_STR(sonde_profile_type(profile, 1).type, "cpu");
    CHECK_NEAR((double)sonde_profile_total(profile, 1), 350.0 * MS, 5.0 * MS);
    CHECK_INT(collect_sum(profile, "burn_other"), ==, 0);
    scene_finish(&scene);
}

TEST(time_blocked_before_the_capture_began_is_not_its) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 1000, .event = SONDE_WALL};
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    uint64_t begun_ns = now_ns();
    usleep(50000);
    push_blocked(&scene, 3600000 * MS);
    uint64_t most_ns = now_ns() - begun_ns + 2000 * MS;
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    int64_t total_ns = sonde_profile_total(scene.collected.profiles[0], 1);
    CHECK_INT(total_ns, >=, 49 * MS);
    CHECK_INT((uint64_t)total_ns, <=, most_ns);
    scene_finish(&scene);
}

/* The guest records a sleeping thread's time late, so it is asked for it at the end. */
TEST(a_wall_capture_beside_another_waits_for_what_the_guest_knows) {
    struct scene scene;
    struct collected other;
    struct engine_capture *cpu;
    struct sonde_diag diag;
    sonde_guest_v1_ToGuest message;
    struct engine_cpu_spec wall = {.frequency_hz = 1000, .event = SONDE_WALL};
    struct engine_cpu_spec plain = {.frequency_hz = 1000};
    scene_init(&scene);
    collect_init(&other);
    CHECK_INT(engine_capture_cpu(scene.engine, &plain, &collect_events, &other, &cpu, &diag), ==,
              SONDE_OK);
    begin(&scene, &wall);
    start_clock(&scene);
    usleep(150000);
    uint64_t until_ns = now_ns(); /* what follows the capture's end is not its time */
    engine_capture_finish(scene.capture);
    do
        fake_expect(&scene.guest, sonde_guest_v1_ToGuest_cpu_config_tag, &message);
    while (message.message.cpu_config.wall_period_ns != 0);
    CHECK_INT(message.message.cpu_config.period_ns, ==, MS);
    push_blocked_until(&scene, until_ns, 100 * MS);
    fake_send_state(&scene.guest, message.message.cpu_config.sequence, true, "fake");
    collect_wait_end(&scene.collected);
    CHECK_NEAR((double)collect_sum(scene.collected.profiles[0], "burn_other"), 100, 1);
    CHECK_INT(other.end_count, ==, 0);
    engine_capture_finish(cpu);
    fake_stop(&scene.guest);
    collect_wait_end(&other);
    engine_capture_release(cpu);
    collect_finish(&other);
    scene_finish(&scene);
}
