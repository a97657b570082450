/* SPDX-License-Identifier: Apache-2.0
 *
 * The results of captures: shares, names, labels, sums and windows. */
#include "api/base/clock.h"
#include "tests/unit/engine/scene.h"

#include <unistd.h>

TEST(a_capture_has_the_shares_names_threads_and_sums_of_its_samples) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    scene_init(&scene);
    begin(&scene, &spec);
    sonde_guest_v1_CpuConfig config = start_clock(&scene);
    CHECK_INT(config.period_ns, ==, 10 * MS);
    CHECK(scene.guest.tables > 0);
    fake_push_thread(&scene.guest, 11, "worker-1", 5, "compaction");
    push_many(&scene, 300, burn_leaf, 11);
    push_many(&scene, 100, burn_other, 12);
    settle(&scene);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_OK);
    CHECK_INT(scene.collected.profile_count, ==, 1);
    const struct sonde_profile *profile = scene.collected.profiles[0];
    CHECK_INT(sonde_profile_total(profile, 0), ==, 400);
    CHECK_INT(sonde_profile_total(profile, 1), ==, 400 * 10 * MS);
    CHECK_INT(collect_sum(profile, "burn_leaf"), ==, 300);
    CHECK_INT(collect_sum(profile, "burn_other"), ==, 100);
    CHECK_INT(collect_sum(profile, "burn_tree"), ==, 400);
    const struct engine_metadata *metadata = &scene.collected.metadata[0];
    CHECK_INT(metadata->samples, ==, 400);
    CHECK_INT(metadata->dropped, ==, 0);
    CHECK_INT(metadata->period_ns, ==, 10 * MS);
    CHECK_STR(scene.collected.clock, "fake");
    CHECK_STR(collect_comment(profile, "clock: "), "clock: fake");
    CHECK_STR(collect_comment(profile, "cut stacks: "), "");
    CHECK_STR(collect_comment(profile, "truncated stacks: "), "");
    CHECK_STR(collect_comment(profile, "ended early: "), "");
    CHECK_STR(collect_comment(profile, "rate: "), "rate: 100 Hz");
    CHECK_STR(collect_comment(profile, "dropped: "), "dropped: none");
    CHECK(strstr(collect_comment(profile, "coverage: "), "4.000 s sampled") != NULL);
    int64_t named = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        if (strcmp(sonde_sample_label(profile, &sample, "thread"), "worker-1") == 0)
            named += sample.values[0];
    }
    CHECK_INT(named, ==, 300);
    const struct sonde_profile_info *info = sonde_profile_info(profile);
    CHECK_INT(info->period, ==, 10 * MS);
    CHECK(info->time_unix_ns > 0 && info->duration_ns > 0);
    scene_finish(&scene);
}

TEST(mappings_and_kinds_distinguish_the_executable_from_libraries) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    const uint64_t pcs[] = {(uint64_t)(uintptr_t)getpid + 1, (uint64_t)(uintptr_t)burn_tree + 4,
                            0x10};
    CHECK(fake_push_sample(&scene.guest, 1, 10 * MS, pcs, 3));
    settle(&scene);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    const struct sonde_profile *profile = scene.collected.profiles[0];
    CHECK_INT(sonde_profile_mapping_count(profile), ==, 2);
    const struct sonde_mapping *first = sonde_profile_mapping(profile, 1);
    CHECK(strstr(sonde_profile_text(profile, first->filename), "capture_test") != NULL);
    CHECK(first->has_functions);
    struct sonde_sample sample = sonde_profile_sample(profile, 0);
    CHECK_INT(sample.location_count, ==, 3);
    const struct sonde_location *leaf = sonde_profile_location(profile, sample.locations[0]);
    CHECK_INT(leaf->kind, ==, SONDE_FRAME_LIBRARY);
    CHECK_INT(leaf->address, ==, pcs[0]);
    CHECK(
        strstr(sonde_profile_text(profile, sonde_profile_mapping(profile, leaf->mapping)->filename),
               "libc") != NULL);
    const struct sonde_location *caller = sonde_profile_location(profile, sample.locations[1]);
    CHECK_INT(caller->kind, ==, SONDE_FRAME_APPLICATION);
    CHECK_INT(caller->address, ==, pcs[1] - 1); /* inside the call */
    const struct sonde_location *root = sonde_profile_location(profile, sample.locations[2]);
    CHECK_INT(root->mapping, ==, 0);
    CHECK_INT(root->line_count, ==, 0);
    scene_finish(&scene);
}

/* Of a time namespace. */
static void check_samples_with_a_clock_ahead_by(int64_t ahead_ns) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    const uint64_t pcs[] = PCS(burn_leaf);
    fake_clock_ahead_ns = ahead_ns;
    scene_init(&scene);
    fake_clock_ahead_ns = 0;
    begin(&scene, &spec);
    start_clock(&scene);
    usleep(30 * 1000); /* the sample's time begins after the capture */
    struct fake_sample sample = {.tid = 1,
                                 .generation = 1,
                                 .weight_ns = 10 * MS,
                                 .time_ns = (uint64_t)(clock_ns(CLOCK_MONOTONIC) + ahead_ns)};
    CHECK(fake_push(&scene.guest, &sample, pcs, 2));
    settle(&scene);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK_INT(collect_sum(scene.collected.profiles[0], "burn_leaf"), ==, 1);
    scene_finish(&scene);
}

TEST(the_samples_of_a_guest_with_another_monotonic_clock_count) {
    check_samples_with_a_clock_ahead_by(0);
    check_samples_with_a_clock_ahead_by(-1000000000000);
    check_samples_with_a_clock_ahead_by(86400000000000);
}

TEST(unseen_time_and_cut_stacks_become_notes) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    const uint64_t pcs[] = PCS(burn_leaf);
    struct fake_sample cut = {
        .tid = 1, .generation = 1, .weight_ns = 10 * MS, .end = RING_END_NO_TABLE};
    struct fake_sample deep = {
        .tid = 1, .generation = 1, .weight_ns = 10 * MS, .end = RING_END_DEPTH, .gap_at = 1};
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    CHECK(fake_push_unseen(&scene.guest, 1, 500 * MS, RING_UNSEEN_BLOCKED));
    CHECK(fake_push(&scene.guest, &cut, pcs, 2));
    CHECK(fake_push(&scene.guest, &deep, pcs, 2));
    settle(&scene);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    const struct sonde_profile *profile = scene.collected.profiles[0];
    CHECK_INT(collect_sum(profile, "[blocked signals]"), ==, 50);
    CHECK_INT(collect_sum(profile, "[no unwind table]"), ==, 1);
    CHECK_INT(collect_sum(profile, "[truncated]"), ==, 1);
    CHECK_INT(scene.collected.metadata[0].truncated, ==, 1);
    CHECK_STR(collect_comment(profile, "cut stacks: "), "cut stacks: no unwind table 1");
    scene_finish(&scene);
}

TEST(a_label_and_a_request_number_travel_with_the_sample) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    const uint64_t pcs[] = PCS(burn_leaf);
    struct fake_sample labelled = {
        .tid = 3, .generation = 1, .weight_ns = 10 * MS, .label = 5, .request = 0xabc};
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    fake_push_thread(&scene.guest, 3, "w", 5, "compaction");
    CHECK(fake_push(&scene.guest, &labelled, pcs, 2));
    settle(&scene);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    const struct sonde_profile *profile = scene.collected.profiles[0];
    struct sonde_sample sample = sonde_profile_sample(profile, 0);
    CHECK_STR(sonde_sample_label(profile, &sample, "label"), "compaction");
    int64_t request = 0, tid = 0;
    for (uint32_t i = 0; i < sample.label_count; i++) {
        const char *key = sonde_profile_text(profile, sample.labels[i].key);
        request += strcmp(key, "request") == 0 ? sample.labels[i].num : 0;
        tid += strcmp(key, "tid") == 0 ? sample.labels[i].num : 0;
    }
    CHECK_INT(request, ==, 0xabc);
    CHECK_INT(tid, ==, 3);
    scene_finish(&scene);
}

TEST(two_captures_share_one_stream_each_at_its_own_rate) {
    struct scene scene;
    struct engine_cpu_spec slow = {.frequency_hz = 100}, fast = {.frequency_hz = 1000};
    struct collected second;
    struct engine_capture *other;
    const uint64_t pcs[] = PCS(burn_leaf);
    sonde_guest_v1_ToGuest message;
    scene_init(&scene);
    collect_init(&second);
    begin(&scene, &slow);
    CHECK_INT(start_clock(&scene).period_ns, ==, 10 * MS);
    CHECK_INT(engine_capture_cpu(scene.engine, &fast, &collect_events, &second, &other, NULL), ==,
              SONDE_OK);
    fake_expect(&scene.guest, sonde_guest_v1_ToGuest_cpu_config_tag, &message);
    CHECK_INT(message.message.cpu_config.period_ns, ==, MS);
    fake_send_state(&scene.guest, message.message.cpu_config.sequence, true, "fake");
    wait_for_state(scene.engine, message.message.cpu_config.sequence);
    for (int i = 0; i < 2000; i++) {
        if (i % 200 == 199)
            fake_wait_drained(&scene.guest);
        CHECK(fake_push_sample(&scene.guest, 1, MS, pcs, 2));
    }
    settle(&scene);
    engine_capture_finish(other);
    collect_wait_end(&second);
    fake_expect(&scene.guest, sonde_guest_v1_ToGuest_cpu_config_tag, &message);
    CHECK_INT(message.message.cpu_config.period_ns, ==, 10 * MS);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK_INT(second.metadata[0].samples, ==, 2000);
    CHECK_NEAR(scene.collected.metadata[0].samples, 200, 1);
    engine_capture_release(other);
    collect_finish(&second);
    scene_finish(&scene);
}

TEST(what_was_sampled_before_a_capture_began_is_not_its) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    struct collected second;
    struct engine_capture *other;
    const uint64_t pcs[] = PCS(burn_leaf);
    scene_init(&scene);
    collect_init(&second);
    begin(&scene, &spec);
    start_clock(&scene);
    for (int i = 0; i < 50; i++)
        CHECK(fake_push_sample(&scene.guest, 1, 10 * MS, pcs, 2));
    CHECK_INT(engine_capture_cpu(scene.engine, &spec, &collect_events, &second, &other, NULL), ==,
              SONDE_OK);
    settle(&scene);
    usleep(30000);
    engine_capture_finish(other);
    collect_wait_end(&second);
    CHECK_INT(second.metadata[0].samples, ==, 0);
    CHECK_INT(sonde_profile_sample_count(second.profiles[0]), ==, 0);
    engine_capture_cancel(scene.capture);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_CANCELLED);
    CHECK_INT(scene.collected.profile_count, ==, 0);
    engine_capture_release(other);
    collect_finish(&second);
    scene_finish(&scene);
}

TEST(a_duration_ends_by_itself_and_progress_names_the_hottest_function) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100, .duration_ms = 700, .progress_ms = 100};
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    push_many(&scene, 30, burn_leaf, 1);
    push_many(&scene, 10, burn_other, 1);
    for (uint32_t i = 1; i < 6 && !collect_hottest(&scene.collected)[0]; i++)
        collect_wait_progress(&scene.collected, i);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK_STR(scene.collected.hottest, "burn_leaf");
    CHECK_NEAR(scene.collected.progress.hottest_share, 0.75, 0.01);
    CHECK_INT(scene.collected.progress.samples, ==, 40);
    CHECK_INT(scene.collected.progress.duration_ms, ==, 700);
    int64_t duration = sonde_profile_info(scene.collected.profiles[0])->duration_ns;
    CHECK_INT(duration, >=, 700 * (int64_t)MS);
    scene_finish(&scene);
}

TEST(windows_come_in_order_and_together_hold_everything) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100, .window_ms = 60};
    int64_t sum = 0, end = 0;
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    for (int i = 0; i < 10; i++) {
        push_many(&scene, 20, burn_leaf, 1);
        usleep(20000);
    }
    settle(&scene);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.profile_count, >=, 3);
    for (uint32_t i = 0; i < scene.collected.profile_count; i++) {
        const struct engine_metadata *metadata = &scene.collected.metadata[i];
        sum += sonde_profile_total(scene.collected.profiles[i], 0);
        CHECK_INT(metadata->sequence, ==, i);
        CHECK(i == 0 || metadata->start_unix_ns == end);
        end = metadata->end_unix_ns;
        CHECK_INT(metadata->samples, ==, sonde_profile_total(scene.collected.profiles[i], 0));
    }
    CHECK_INT(sum, ==, 200);
    scene_finish(&scene);
}
