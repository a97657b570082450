/* SPDX-License-Identifier: Apache-2.0
 *
 * How captures end: by duration or max_samples, with their target, by an error, or by a
 * cancellation. */
#include "tests/unit/engine/scene.h"

#include <unistd.h>

TEST(max_samples_ends_the_capture_at_that_number) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100, .max_samples = 25};
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    push_many(&scene, 40, burn_leaf, 1);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK_INT(sonde_profile_total(scene.collected.profiles[0], 0), ==, 25);
    const char *early = collect_comment(scene.collected.profiles[0], "ended early: ");
    CHECK(strstr(early, " s, at the limit of 25 samples (n)"));
    scene_finish(&scene);
}

TEST(last_records_written_while_the_clock_stops_are_counted) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    sonde_guest_v1_ToGuest message;
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    engine_capture_finish(scene.capture);
    fake_expect(&scene.guest, sonde_guest_v1_ToGuest_cpu_config_tag, &message);
    CHECK_INT(message.message.cpu_config.period_ns, ==, 0);
    CHECK(fake_push_unseen(&scene.guest, 1, 70 * MS, RING_UNSEEN_BLOCKED));
    fake_send_state(&scene.guest, message.message.cpu_config.sequence, false, "");
    collect_wait_end(&scene.collected);
    CHECK_NEAR(collect_sum(scene.collected.profiles[0], "[blocked signals]"), 7, 0);
    scene_finish(&scene);
}

TEST(a_target_that_ends_leaves_the_samples_so_far) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    const uint64_t pcs[] = PCS(burn_leaf);
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    for (int i = 0; i < 60; i++)
        CHECK(fake_push_sample(&scene.guest, 1, 10 * MS, pcs, 2));
    fake_close(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_OK);
    CHECK(scene.collected.metadata[0].target_gone);
    CHECK_INT(collect_sum(scene.collected.profiles[0], "burn_leaf"), ==, 60);
    CHECK(strstr(collect_comment(scene.collected.profiles[0], "target: "), "ended") != NULL);
    scene_finish(&scene);
}

TEST(a_target_that_ends_before_its_clock_runs_is_an_error) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    scene_init(&scene);
    begin(&scene, &spec);
    fake_close(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_TARGET_GONE);
    scene_finish(&scene);
}

TEST(a_guest_without_any_clock_is_an_error_with_its_reason) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    sonde_guest_v1_ToGuest message;
    sonde_guest_v1_FromGuest state = sonde_guest_v1_FromGuest_init_zero;
    scene_init(&scene);
    begin(&scene, &spec);
    fake_expect(&scene.guest, sonde_guest_v1_ToGuest_cpu_config_tag, &message);
    state.which_message = sonde_guest_v1_FromGuest_cpu_state_tag;
    state.message.cpu_state.sequence = message.message.cpu_config.sequence;
    state.message.cpu_state.os_error = 1;
    strcpy(state.message.cpu_state.note, "seccomp forbids perf and timers");
    fake_send(&scene.guest, &state, -1);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_NO_CLOCK);
    CHECK(strstr(scene.collected.diag.text, "seccomp") != NULL);
    CHECK(strstr(scene.collected.diag.text, "burner") != NULL);
    scene_finish(&scene);
}

TEST(drops_are_reported_by_cause) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    struct ring_header *header = (struct ring_header *)scene.guest.rings;
    atomic_fetch_add(&header->drops[RING_DROP_FULL], 3);
    atomic_fetch_add(&header->drops[RING_DROP_NESTED], 2);
    struct fake_sample wrong = {.tid = 1, .weight_ns = UINT64_MAX};
    CHECK(fake_push(&scene.guest, &wrong, NULL, 0));
    settle(&scene);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.metadata[0].dropped, ==, 6);
    CHECK_STR(collect_comment(scene.collected.profiles[0], "dropped: "),
              "dropped: ring_full 3, nested 2, corrupt 1");
    struct engine_counters counters;
    engine_counters(scene.engine, &counters);
    CHECK_STR(counters.drops[0].cause, "ring_full");
    CHECK_INT(counters.drops[0].count, ==, 3);
    scene_finish(&scene);
}

TEST(the_sixty_fifth_capture_is_refused_and_an_ended_one_makes_room) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    struct engine_capture *captures[ENGINE_CAPTURES_PER_TARGET];
    static struct collected many[ENGINE_CAPTURES_PER_TARGET];
    struct sonde_diag diag = {0};
    scene_init(&scene);
    for (int i = 0; i < ENGINE_CAPTURES_PER_TARGET; i++) {
        collect_init(&many[i]);
        CHECK_INT(
            engine_capture_cpu(scene.engine, &spec, &collect_events, &many[i], &captures[i], NULL),
            ==, SONDE_OK);
    }
    CHECK_INT(engine_capture_cpu(scene.engine, &spec, &collect_events, &scene.collected,
                                 &scene.capture, &diag),
              ==, SONDE_TOO_MANY_CAPTURES);
    CHECK_STR(diag.text, "64 captures of burner are running; the limit is 64");
    engine_capture_cancel(captures[0]);
    collect_wait_end(&many[0]);
    begin(&scene, &spec);
    struct engine_counters counters;
    engine_counters(scene.engine, &counters);
    CHECK_INT(counters.captures_running, ==, 64);
    CHECK_INT(counters.captures_total, ==, 65);
    engine_destroy(scene.engine);
    scene.engine = NULL;
    for (int i = 0; i < ENGINE_CAPTURES_PER_TARGET; i++) {
        CHECK_INT(many[i].end_count, ==, 1);
        CHECK_INT(many[i].err, ==, i == 0 ? SONDE_CANCELLED : SONDE_UNAVAILABLE);
        engine_capture_release(captures[i]);
        collect_finish(&many[i]);
    }
    CHECK_INT(scene.collected.err, ==, SONDE_UNAVAILABLE);
    scene_finish(&scene);
}

TEST(wrong_numbers_are_refused_with_their_bounds) {
    struct scene scene;
    struct sonde_diag diag = {0};
    scene_init(&scene);
    struct engine_cpu_spec spec = {.frequency_hz = 0};
    CHECK_INT(engine_capture_cpu(scene.engine, &spec, &collect_events, &scene.collected,
                                 &scene.capture, &diag),
              ==, SONDE_INVALID_ARGUMENT);
    spec.frequency_hz = 10001;
    CHECK_INT(engine_capture_cpu(scene.engine, &spec, &collect_events, &scene.collected,
                                 &scene.capture, &diag),
              ==, SONDE_INVALID_ARGUMENT);
    CHECK(strstr(diag.text, "10000") != NULL);
    scene_finish(&scene);
}

TEST(finishing_before_the_clock_ran_gives_an_empty_profile) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    scene_init(&scene);
    begin(&scene, &spec);
    engine_capture_finish(scene.capture);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_OK);
    CHECK_INT(scene.collected.profile_count, ==, 1);
    CHECK_INT(sonde_profile_sample_count(scene.collected.profiles[0]), ==, 0);
    scene_finish(&scene);
}

/* Captures are cancelled in every state. */
TEST(cancelling_at_any_moment_ends_the_capture_once) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 1000, .window_ms = 2, .progress_ms = 1};
    scene_init(&scene);
    begin(&scene, &spec); /* a second capture, which keeps the clock running */
    start_clock(&scene);
    const uint64_t pcs[] = PCS(burn_leaf);
    for (useconds_t pause = 0; pause < 60; pause++) {
        struct collected collected;
        struct engine_capture *capture;
        collect_init(&collected);
        CHECK_INT(
            engine_capture_cpu(scene.engine, &spec, &collect_events, &collected, &capture, NULL),
            ==, SONDE_OK);
        (void)fake_push_sample(&scene.guest, 1, MS, pcs, 2);
        usleep(pause * 200);
        if (pause % 3 == 0)
            engine_capture_finish(capture);
        engine_capture_cancel(capture);
        engine_capture_cancel(capture);
        collect_wait_end(&collected);
        CHECK(collected.err == SONDE_CANCELLED || (collected.err == SONDE_OK && pause % 3 == 0));
        engine_capture_release(capture);
        collect_finish(&collected);
    }
    engine_capture_cancel(scene.capture);
    collect_wait_end(&scene.collected);
    scene_finish(&scene);
}

TEST(the_next_capture_after_a_stop_uses_the_same_rings) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    scene_init(&scene);
    for (int round = 0; round < 3; round++) {
        struct collected collected;
        struct engine_capture *capture;
        collect_init(&collected);
        CHECK_INT(
            engine_capture_cpu(scene.engine, &spec, &collect_events, &collected, &capture, NULL),
            ==, SONDE_OK);
        start_clock(&scene);
        push_many(&scene, 10, burn_leaf, 1);
        settle(&scene);
        engine_capture_finish(capture);
        fake_stop(&scene.guest);
        collect_wait_end(&collected);
        CHECK_INT(collect_sum(collected.profiles[0], "burn_leaf"), ==, 10);
        engine_capture_release(capture);
        collect_finish(&collected);
    }
    CHECK(fake_is_quiet(&scene.guest, 100));
    scene_finish(&scene);
}
