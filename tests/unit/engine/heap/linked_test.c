/* SPDX-License-Identifier: Apache-2.0
 *
 * Sonde's sampler in a program that links the guest instead of preloading it. With an average of 4
 * KiB between samples, every block of 1 MiB is sampled, so sums are exact. */
#include "tests/unit/engine/heap/stage.h"

#include <unistd.h>

#define LARGE (50ll << 20)

static const char *const linked[] = {"tests/unit/engine/heap/holder_linked", NULL};

static void activate(struct stage *stage) {
    struct asked asked = stage_ask(
        stage, (struct engine_heap_request){.verb = ENGINE_HEAP_ACTIVATE, .sample_bytes = 4096});
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK_INT(asked.state.backend, ==, ENGINE_HEAP_INTERPOSED);
}

static void deactivate(struct stage *stage) {
    CHECK_INT(stage_ask_verb(stage, ENGINE_HEAP_DEACTIVATE).err, ==, SONDE_OK);
}

static int64_t large_bytes(struct stage *stage) {
    struct got got = stage_get(stage, (struct engine_heap_query){.require_active = true});
    CHECK_INT(got.err, ==, SONDE_OK);
    int64_t bytes = profile_bytes(got.result.profile, "hold_large");
    CHECK(bytes == 0 || strcmp(profile_leaf(got.result.profile, 0), "malloc") != 0);
    got_finish(&got);
    return bytes;
}

TEST(a_linked_guest_samples_what_the_program_allocates_and_frees) {
    struct stage stage;
    stage_init_linked(&stage, linked);
    stage_tell(&stage, 's');
    activate(&stage);
    CHECK_INT(large_bytes(&stage), ==, 0); /* from before */
    stage_tell(&stage, 's');
    CHECK_INT(large_bytes(&stage), ==, LARGE);
    stage_tell(&stage, 'f');
    CHECK_INT(large_bytes(&stage), ==, 0);
    stage_finish(&stage);
}

TEST(a_linked_guest_is_gone_from_malloc_after_a_deactivation_and_can_come_back) {
    struct stage stage;
    stage_init_linked(&stage, linked);
    for (int round = 0; round < 3; round++) {
        activate(&stage);
        stage_tell(&stage, 's');
        CHECK_INT(large_bytes(&stage), ==, LARGE);
        deactivate(&stage);
        struct got got = stage_get(&stage, (struct engine_heap_query){.require_active = true});
        CHECK_INT(got.err, ==, SONDE_NOT_ACTIVE);
        got_finish(&got);
        stage_tell(&stage, 'f');
    }
    stage_finish(&stage);
}

TEST(a_window_of_allocations_of_a_linked_guest_has_every_one) {
    struct stage stage;
    struct collected collected;
    struct engine_capture *capture;
    stage_init_linked(&stage, linked);
    collect_init(&collected);
    struct engine_allocs_spec spec = {.target = stage.target, .sample_bytes = 1, .progress_ms = 20};
    CHECK_INT(
        engine_capture_allocs(stage.engine, &spec, &collect_events, &collected, &capture, NULL), ==,
        SONDE_OK);
    collect_wait_progress(&collected, 1);
    stage_tell(&stage, 's');
    stage_tell(&stage, 'f');
    engine_capture_finish(capture);
    collect_wait_end(&collected);
    CHECK_INT(collected.profile_count, ==, 1);
    const struct sonde_profile *profile = collected.profiles[0];
    size_t type = sonde_profile_find_type(profile, "alloc_objects");
    CHECK_NEAR(sonde_profile_total(profile, type), 64000 + 50 + 160000, 100);
    engine_capture_release(capture);
    collect_finish(&collected);
    stage_finish(&stage);
}

/* Eight threads allocate all the time while the imports of malloc are patched and restored. */
TEST(a_linked_guest_that_is_stopped_and_started_again_leaves_malloc_whole) {
    struct stage stage;
    stage_init_linked(&stage, linked);
    stage_tell(&stage, 'w');
    for (int round = 0; round < 3; round++) {
        activate(&stage);
        stage_tell(&stage, 's');
        CHECK_INT(large_bytes(&stage), ==, LARGE);
        stage_tell(&stage, 'q');
        stage_tell(&stage, 'f');
        stage_tell(&stage, 'p');
        stage_tell(&stage, 'r');
        stage_wait_attached(&stage);
        deactivate(&stage);
    }
    stage_tell(&stage, 'W');
    stage_finish(&stage);
}
