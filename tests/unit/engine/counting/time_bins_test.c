/* SPDX-License-Identifier: Apache-2.0 */
#include "service/engine/counting/time_bins.h"

#include "api/profile/timeline.h"
#include "tests/unit/engine/scene.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define START 1000000000ull

static uint64_t count_of(const struct time_bins *bins) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < bins->used; i++)
        sum += bins->items[i].count;
    return sum;
}

TEST(samples_are_spread_over_their_span) {
    struct time_bins bins = {0};
    struct time_span span = {START + 90 * MS, 60 * MS}; /* 30 to 90 ms: bins 1 to 4 */
    time_bins_add(&bins, 2, 7, &span, START, 60);
    static const uint32_t expected[] = {10, 20, 20, 10};
    CHECK_INT(bins.used, ==, 4);
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_INT(bins.items[i].part, ==, 2);
        CHECK_INT(bins.items[i].entry, ==, 7);
        CHECK_INT(bins.items[i].bin, ==, i + 1);
        CHECK_NEAR(bins.items[i].count, expected[i], 1);
    }
    CHECK_INT(count_of(&bins), ==, 60);
    time_bins_finish(&bins);
}

TEST(a_span_that_began_before_the_window_counts_from_its_start) {
    struct time_bins bins = {0};
    struct time_span span = {START + 10 * MS, 3600000 * MS}, before = {START - 5, 10};
    time_bins_add(&bins, 0, 0, &span, START, 5);
    time_bins_add(&bins, 0, 0, &before, START, 3);
    CHECK_INT(bins.used, ==, 1);
    CHECK_INT(bins.items[0].bin, ==, 0);
    CHECK_INT(bins.items[0].count, ==, 8);
    time_bins_finish(&bins);
}

TEST(samples_of_one_entry_in_one_bin_are_one_item) {
    struct time_bins bins = {0};
    struct time_span early = {START + MS, 0}, late = {START + 30 * MS, 0};
    for (int i = 0; i < 1000; i++) {
        time_bins_add(&bins, 0, 1, &early, START, 1);
        time_bins_add(&bins, 0, 2000, &early, START, 1);
    }
    time_bins_add(&bins, 0, 1, &late, START, 1);
    time_bins_add(&bins, 1, 1, &late, START, 1); /* another part, so another stack */
    CHECK_INT(bins.used, ==, 4);
    CHECK_INT(bins.items[0].count, ==, 1000);
    CHECK_INT(bins.items[1].count, ==, 1000);
    CHECK_INT(count_of(&bins), ==, 2002);
    time_bins_finish(&bins);
}

TEST(too_many_bins_are_dropped) {
    struct time_bins bins = {0};
    struct time_span span = {START, 0};
    for (uint32_t i = 0; i < SONDE_TIMELINE_MAX; i++)
        time_bins_add(&bins, 0, i, &span, START, 1);
    CHECK_INT(bins.used, ==, SONDE_TIMELINE_MAX);
    CHECK(!bins.is_full);
    time_bins_add(&bins, 0, SONDE_TIMELINE_MAX, &span, START, 1);
    CHECK(bins.is_full && bins.used == 0 && !bins.items);
    time_bins_add(&bins, 0, 0, &span, START, 1);
    CHECK(bins.used == 0);
    time_bins_finish(&bins);
}

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

static void push_at(struct scene *scene, uint64_t time_ns, void (*leaf)(void)) {
    const uint64_t pcs[] = PCS(leaf);
    struct fake_sample sample = {.tid = 7, .generation = 1, .weight_ns = MS, .time_ns = time_ns};
    CHECK(fake_push(&scene->guest, &sample, pcs, 2));
}

static int64_t sum_of(const struct sonde_profile *profile, uint32_t from_ms, uint32_t until_ms,
                      const char *name) {
    struct sonde_profile *cut;
    CHECK_INT(
        sonde_timeline_cut(profile, (struct sonde_timeline_range){from_ms, until_ms}, &cut, NULL),
        ==, SONDE_OK);
    int64_t sum = collect_sum(cut, name);
    sonde_profile_destroy(cut);
    return sum;
}

TEST(two_phases_of_a_program_are_two_parts_of_its_timeline) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 1000, .has_timeline = true};
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    uint64_t start_ns = clock_ns(CLOCK_MONOTONIC), start_unix_ns = clock_ns(CLOCK_REALTIME);
    while (clock_ns(CLOCK_MONOTONIC) < start_ns + 210 * MS)
        usleep(1000);
    for (uint64_t i = 0; i < 40; i++) {
        push_at(&scene, start_ns + (50 + i) * MS, burn_leaf);
        push_at(&scene, start_ns + (160 + i) * MS, burn_other);
    }
    settle(&scene);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    const struct sonde_profile *profile = scene.collected.profiles[0];
    int64_t begun_ns = (int64_t)start_unix_ns - sonde_profile_info(profile)->time_unix_ns;
    uint32_t middle_ms = (uint32_t)(begun_ns / 1000000 + 125);
    CHECK_INT(sum_of(profile, 0, middle_ms, "burn_leaf"), ==, 40);
    CHECK_INT(sum_of(profile, 0, middle_ms, "burn_other"), ==, 0);
    CHECK_INT(sum_of(profile, middle_ms, 0, "burn_leaf"), ==, 0);
    CHECK_INT(sum_of(profile, middle_ms, 0, "burn_other"), ==, 40);
    int64_t values[10000] = {0}, sum = 0;
    sonde_timeline_sum(profile, 1, 20, (struct sonde_timeline_range){0, 0}, values, 10000);
    for (size_t i = 0; i < 10000; i++)
        sum += values[i];
    CHECK_INT(sum, ==, sonde_profile_total(profile, 1));
    scene_finish(&scene);
}

TEST(a_capture_that_is_not_kept_has_no_timeline) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 1000};
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    push_many(&scene, 5, burn_leaf, 7);
    settle(&scene);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK(sonde_profile_timeline(scene.collected.profiles[0]) == NULL);
    scene_finish(&scene);
}
