/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocation windows of real programs. */
#include "tests/unit/engine/heap/stage.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static const char *const plain[] = {"tests/unit/engine/heap/holder_plain", NULL};
static const char *const inside[] = {"tests/unit/engine/heap/holder_static", NULL};

/* Allocated by command 's'. */
#define OBJECTS (64000.0 + 50 + 160000)
#define BYTES   (64000 * 1000.0 + 50 * 1048576.0 + 160000.0 / 8 * (7 * 32 + 2048))

struct window {
    struct collected collected;
    struct engine_capture *capture;
    sonde_err err;
    struct sonde_diag diag;
};

static void window_init(struct window *window, struct stage *stage,
                        struct engine_allocs_spec spec) {
    *window = (struct window){0};
    collect_init(&window->collected);
    spec.target = stage->target;
    window->err = engine_capture_allocs(stage->engine, &spec, &collect_events, &window->collected,
                                        &window->capture, &window->diag);
}

/* Opens a window and waits until it has begun. */
static void window_open(struct window *window, struct stage *stage,
                        struct engine_allocs_spec spec) {
    spec.progress_ms = 20;
    window_init(window, stage, spec);
    CHECK_INT(window->err, ==, SONDE_OK);
    collect_wait_progress(&window->collected, 1);
}

static const struct sonde_profile *window_result(struct window *window) {
    collect_wait_end(&window->collected);
    if (window->collected.err)
        printf("  %s\n", window->collected.diag.text);
    CHECK_INT(window->collected.err, ==, SONDE_OK);
    CHECK_INT(window->collected.profile_count, ==, 1);
    CHECK_INT(window->collected.overlaps, ==, 0);
    return window->collected.profiles[0];
}

static void window_finish(struct window *window) {
    engine_capture_release(window->capture);
    collect_finish(&window->collected);
}

static double objects_of(const struct sonde_profile *profile) {
    return (double)sonde_profile_total(profile, sonde_profile_find_type(profile, "alloc_objects"));
}

static double bytes_of(const struct sonde_profile *profile) {
    return (double)sonde_profile_total(profile, sonde_profile_find_type(profile, "alloc_space"));
}

TEST(a_window_has_what_was_freed_in_it_and_nothing_of_before) {
    struct stage stage;
    struct window window;
    stage_init(&stage, NULL, plain);
    stage_tell(&stage, 's');
    window_open(&window, &stage, (struct engine_allocs_spec){.sample_bytes = 1});
    stage_tell(&stage, 's');
    stage_tell(&stage, 'f');
    engine_capture_finish(window.capture);
    const struct sonde_profile *profile = window_result(&window);
    CHECK_NEAR(objects_of(profile), OBJECTS, 100); /* all of them, and those of stdio */
    CHECK_NEAR(bytes_of(profile), BYTES, 100000);
    CHECK_INT(sonde_profile_type_count(profile), ==, 2);
    CHECK_INT(sonde_profile_info(profile)->default_type, ==, 1);
    CHECK_INT(window.collected.metadata[0].samples, >=, OBJECTS);
    CHECK_INT(window.collected.metadata[0].dropped, ==, 0);
    CHECK_INT(window.collected.metadata[0].period_ns, ==, 0);
    CHECK_STR(collect_comment(profile, "backend: Sonde's sampler"),
              "backend: Sonde's sampler on the malloc of libc.so.6, every allocation");
    CHECK(collect_sum(profile, "hold_small") >= 64000);
    CHECK(collect_sum(profile, "main") >= OBJECTS);
    window_finish(&window);
    stage_finish(&stage);
}

TEST(a_window_by_bytes_is_an_estimate) {
    struct stage stage;
    struct window window;
    stage_init(&stage, NULL, plain);
    window_open(&window, &stage, (struct engine_allocs_spec){.sample_bytes = 16384});
    stage_tell(&stage, 's');
    collect_wait_progress(&window.collected, window.collected.progress_count + 2);
    engine_capture_finish(window.capture);
    const struct sonde_profile *profile = window_result(&window);
    CHECK_NEAR(bytes_of(profile), BYTES, 5 * sqrt(BYTES / 16384) * 16384);
    CHECK_INT(sonde_profile_info(profile)->period, ==, 16384);
    CHECK_INT(window.collected.progress.samples, >, 1000);
    window_finish(&window);
    stage_finish(&stage);
}

TEST(a_window_with_a_duration_ends_by_itself) {
    struct stage stage;
    struct window window;
    stage_init(&stage, NULL, plain);
    window_open(&window, &stage,
                (struct engine_allocs_spec){.sample_bytes = 16384, .duration_ms = 1500});
    stage_tell(&stage, 's');
    const struct sonde_profile *profile = window_result(&window);
    CHECK_INT(sonde_profile_info(profile)->duration_ns, >=, 1400000000);
    CHECK_INT(window.collected.progress_count, >, 5);
    window_finish(&window);
    stage_finish(&stage);
}

TEST(a_window_by_probability_takes_small_ones_as_often) {
    struct stage stage;
    struct window window;
    stage_init(&stage, NULL, plain);
    window_open(&window, &stage, (struct engine_allocs_spec){.probability = 0.1});
    stage_tell(&stage, 's');
    engine_capture_finish(window.capture);
    const struct sonde_profile *profile = window_result(&window);
    CHECK_NEAR(objects_of(profile), OBJECTS, 5 * sqrt(OBJECTS * 9));
    CHECK(collect_comment(profile, "backend: Sonde's sampler")[0]);
    window_finish(&window);
    stage_finish(&stage);
}

TEST(windows_and_heap_profiling_share_one_sampler) {
    struct stage stage;
    struct window window, dense;
    stage_init(&stage, NULL, plain);
    struct engine_heap_request on = {.verb = ENGINE_HEAP_ACTIVATE, .sample_bytes = 65536};
    CHECK_INT(stage_ask(&stage, on).err, ==, SONDE_OK);
    window_open(&window, &stage, (struct engine_allocs_spec){.sample_bytes = 1 << 20});
    window_open(&dense, &stage, (struct engine_allocs_spec){.sample_bytes = 4096});
    stage_tell(&stage, 's');
    engine_capture_finish(dense.capture);
    CHECK_NEAR(bytes_of(window_result(&dense)), BYTES, 5 * sqrt(BYTES / 4096) * 4096);
    stage_tell(&stage, 'f');
    stage_tell(&stage, 's');
    engine_capture_finish(window.capture);
    CHECK_NEAR(bytes_of(window_result(&window)), 2 * BYTES, 5 * sqrt(2 * BYTES / 65536) * 65536);
    struct got got = stage_get(&stage, (struct engine_heap_query){.require_active = true});
    CHECK_INT(got.err, ==, SONDE_OK); /* heap profiling goes on */
    CHECK_INT(profile_bytes(got.result.profile, "hold_large"), >=, 40 << 20);
    got_finish(&got);
    window_finish(&window);
    window_finish(&dense);
    stage_finish(&stage);
}

TEST(a_window_can_be_cancelled_and_finished_before_it_begins) {
    struct stage stage;
    struct window window;
    stage_init(&stage, NULL, plain);
    for (int i = 0; i < 20; i++) {
        window_init(&window, &stage, (struct engine_allocs_spec){0});
        CHECK_INT(window.err, ==, SONDE_OK);
        engine_capture_cancel(window.capture);
        collect_wait_end(&window.collected);
        CHECK_INT(window.collected.err, ==, SONDE_CANCELLED);
        CHECK_INT(window.collected.profile_count, ==, 0);
        window_finish(&window);
        window_init(&window, &stage, (struct engine_allocs_spec){0});
        engine_capture_finish(window.capture);
        (void)window_result(&window);
        window_finish(&window);
    }
    struct engine_counters counters;
    engine_counters(stage.engine, &counters);
    CHECK_INT(counters.captures_running, ==, 0);
    stage_finish(&stage);
}

TEST(bounds_of_windows_are_checked_at_once) {
    struct stage stage;
    struct window window;
    stage_init(&stage, NULL, plain);
    static const struct engine_allocs_spec wrong[] = {
        {.duration_ms = 3600001},
        {.sample_bytes = (1ull << 30) + 1},
        {.probability = 1.5},
        {.probability = -0.1},
        {.probability = NAN},
        {.sample_bytes = 4096, .probability = 0.5},
        {.sample_bytes = 1, .duration_ms = 60001},
        {.probability = 1, .duration_ms = 60001},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        window_init(&window, &stage, wrong[i]);
        CHECK_INT(window.err, ==, SONDE_INVALID_ARGUMENT);
        CHECK(window.diag.text[0] != 0);
    }
    stage_finish(&stage);
}

TEST(a_target_that_ends_in_the_window_leaves_what_it_did) {
    struct stage stage;
    struct window window;
    stage_init(&stage, NULL, plain);
    window_open(&window, &stage, (struct engine_allocs_spec){.sample_bytes = 1});
    stage_tell(&stage, 's');
    kill(stage.pid, SIGKILL);
    const struct sonde_profile *profile = window_result(&window);
    CHECK(window.collected.metadata[0].target_gone);
    CHECK_NEAR(objects_of(profile), OBJECTS, 100);
    window_finish(&window);
    stage_finish(&stage);
}

/* ---- Sessions ---- */

struct started {
    pthread_mutex_t mutex;
    pthread_cond_t came;
    bool has_come;
    sonde_err err;
    struct sonde_diag diag;
    struct engine_session_info info;
};

static void on_started(void *context, sonde_err err, const struct sonde_diag *diag,
                       const struct engine_session_info *info) {
    struct started *started = context;
    pthread_mutex_lock(&started->mutex);
    CHECK(!started->has_come);
    started->has_come = true;
    started->err = err;
    if (diag)
        started->diag = *diag;
    if (info)
        started->info = *info;
    pthread_cond_signal(&started->came);
    pthread_mutex_unlock(&started->mutex);
}

static struct started start_session(struct stage *stage, const char *owner) {
    struct started started = {.mutex = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER};
    struct engine_allocs_spec spec = {.target = stage->target, .sample_bytes = 1};
    struct sonde_diag diag = {0};
    sonde_err err =
        engine_allocs_start(stage->engine, &spec, 0, owner, on_started, &started, &diag);
    if (err)
        return (struct started){.err = err, .diag = diag};
    pthread_mutex_lock(&started.mutex);
    while (!started.has_come)
        pthread_cond_wait(&started.came, &started.mutex);
    pthread_mutex_unlock(&started.mutex);
    return started;
}

static void stop_session(struct stage *stage, struct collected *collected) {
    collect_init(collected);
    CHECK_INT(engine_allocs_stop(stage->engine, &stage->target, &collect_events, collected, NULL),
              ==, SONDE_OK);
    collect_wait_end(collected);
    CHECK_INT(collected->err, ==, SONDE_OK);
}

TEST(a_session_of_allocations_keeps_its_last_result) {
    struct stage stage;
    struct collected none, one, again;
    stage_init(&stage, NULL, plain);
    stop_session(&stage, &none);
    CHECK_INT(sonde_profile_sample_count(none.profiles[0]), ==, 0);
    CHECK_STR(sonde_profile_type(none.profiles[0], 1).type, "alloc_space");
    CHECK_INT(sonde_profile_info(none.profiles[0])->time_unix_ns, >, 0);
    struct started started = start_session(&stage, "me");
    CHECK_INT(started.err, ==, SONDE_OK);
    CHECK_STR(started.info.owner, "me");
    CHECK_INT(started.info.lease_until_unix_ns - started.info.start_unix_ns, ==, 60000000000);
    stage_tell(&stage, 'd'); /* sampling has begun */
    started = start_session(&stage, "you");
    CHECK_INT(started.err, ==, SONDE_SESSION_BUSY);
    CHECK(strstr(started.diag.text, "started by me") != NULL);
    stop_session(&stage, &one);
    CHECK_INT(collect_sum(one.profiles[0], "hold_deep"), ==, 20);
    stop_session(&stage, &again);
    CHECK_INT(collect_sum(again.profiles[0], NULL), ==, collect_sum(one.profiles[0], NULL));
    CHECK_STR(again.clock_note, "");
    collect_finish(&none);
    collect_finish(&one);
    collect_finish(&again);
    stage_finish(&stage);
}

static void check_refusals(const char *program, const char *text) {
    const char *const command[] = {program, NULL};
    struct stage stage;
    struct window window;
    struct collected none;
    stage_init(&stage, NULL, command);
    window_init(&window, &stage, (struct engine_allocs_spec){.duration_ms = 300});
    collect_wait_end(&window.collected);
    CHECK_INT(window.collected.err, ==, SONDE_NOT_AVAILABLE);
    CHECK_STR(window.collected.diag.text, text);
    for (int i = 0; i < 2; i++) {
        struct started started = start_session(&stage, "me");
        CHECK_INT(started.err, ==, SONDE_NOT_AVAILABLE);
        CHECK_STR(started.diag.text, text);
    }
    stop_session(&stage, &none); /* no session has run */
    CHECK_INT(sonde_profile_sample_count(none.profiles[0]), ==, 0);
    CHECK_STR(stage_ask_verb(&stage, ENGINE_HEAP_STATUS).state.note, text);
    window_finish(&window);
    collect_finish(&none);
    stage_finish(&stage);
}

TEST(what_a_window_refuses_a_session_refuses_with_the_same_text) {
    check_refusals("tests/unit/engine/heap/own_malloc",
                   "holder does not use jemalloc, and its malloc is part of the program, so "
                   "Sonde's sampler cannot wrap it; link it with jemalloc, or without a malloc");
    check_refusals("tests/unit/engine/heap/holder_stripped",
                   "holder contains jemalloc, but its symbols were stripped, so Sonde cannot find "
                   "mallctl; keep them to profile its memory (strip -g removes only debug "
                   "information)");
}

/* ---- jemalloc in the program: its malloc cannot be patched ---- */

TEST(a_jemalloc_in_the_program_is_sampled_in_its_hooks_without_any_setting) {
    struct stage stage;
    struct window window;
    stage_init(&stage, NULL, inside);
    stage_tell(&stage, 's');
    window_open(&window, &stage, (struct engine_allocs_spec){.sample_bytes = 1});
    stage_tell(&stage, 's');
    stage_tell(&stage, 'f');
    engine_capture_finish(window.capture);
    const struct sonde_profile *profile = window_result(&window);
    CHECK_NEAR(objects_of(profile), OBJECTS, 100);
    CHECK_NEAR(bytes_of(profile), BYTES, 100000);
    CHECK_INT(window.collected.metadata[0].dropped, ==, 0);
    CHECK_STR(collect_comment(profile, "backend: Sonde's sampler"),
              "backend: Sonde's sampler in jemalloc's hooks, every allocation");
    CHECK_INT(collect_sum(profile, "hold_small"), ==, 64000);
    CHECK_INT(collect_sum(profile, "main"), >=, OBJECTS);
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++)
        CHECK(strstr(profile_leaf(profile, i), "malloc") == NULL);
    window_finish(&window);
    stage_finish(&stage);
}

TEST(windows_in_hooks_are_estimates_by_bytes_and_by_probability) {
    struct stage stage;
    struct window by_bytes, by_chance;
    stage_init(&stage, STAGE_PROF, inside);
    window_open(&by_bytes, &stage, (struct engine_allocs_spec){.sample_bytes = 65536});
    stage_tell(&stage, 's');
    engine_capture_finish(by_bytes.capture);
    CHECK_NEAR(bytes_of(window_result(&by_bytes)), BYTES, 5 * sqrt(BYTES / 65536) * 65536);
    window_open(&by_chance, &stage, (struct engine_allocs_spec){.probability = 0.1});
    stage_tell(&stage, 'f');
    stage_tell(&stage, 's');
    engine_capture_finish(by_chance.capture);
    CHECK_NEAR(objects_of(window_result(&by_chance)), OBJECTS, 5 * sqrt(OBJECTS * 9));
    window_finish(&by_bytes);
    window_finish(&by_chance);
    stage_finish(&stage);
}

TEST(windows_in_hooks_leave_jemallocs_own_profiling_as_it_is) {
    struct stage stage;
    struct window one, other;
    stage_init(&stage, STAGE_PROF ",prof_accum:true", inside);
    window_open(&one, &stage, (struct engine_allocs_spec){.sample_bytes = 4096});
    CHECK(!stage_ask_verb(&stage, ENGINE_HEAP_STATUS).state.active);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    window_open(&other, &stage, (struct engine_allocs_spec){.sample_bytes = 1});
    stage_tell(&stage, 's');
    engine_capture_finish(other.capture);
    CHECK_NEAR(bytes_of(window_result(&other)), BYTES, 100000);
    stage_tell(&stage, 's'); /* the other window goes on */
    engine_capture_finish(one.capture);
    CHECK_NEAR(bytes_of(window_result(&one)), 2 * BYTES, 5 * sqrt(2 * BYTES / 4096) * 4096);
    struct asked asked = stage_ask_verb(&stage, ENGINE_HEAP_STATUS);
    CHECK(asked.state.active);
    CHECK_INT(asked.state.backend, ==, ENGINE_HEAP_JEMALLOC);
    struct got got = stage_get(&stage, (struct engine_heap_query){.require_active = true});
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK_INT(profile_bytes(got.result.profile, "hold_large"), >=, 90 << 20);
    got_finish(&got);
    window_finish(&one);
    window_finish(&other);
    stage_finish(&stage);
}

TEST(hooks_are_removed_after_the_last_window_and_when_the_service_dies) {
    struct stage stage;
    struct window one, other;
    stage_init(&stage, NULL, inside);
    stage_tell(&stage, 'h');
    window_open(&one, &stage, (struct engine_allocs_spec){0});
    window_open(&other, &stage, (struct engine_allocs_spec){0});
    engine_capture_finish(one.capture);
    (void)window_result(&one);
    engine_capture_cancel(other.capture);
    collect_wait_end(&other.collected);
    stage_tell(&stage, 'h');
    window_finish(&one);
    window_finish(&other);
    window_open(&one, &stage, (struct engine_allocs_spec){0});
    engine_destroy(stage.engine);
    stage_tell(&stage, 'h');
    window_finish(&one);
    stage.engine = place_engine(&stage.place);
    stage_finish(&stage);
}

TEST(a_chain_of_windows_without_end_does_not_keep_hooks_installed) {
    struct stage stage;
    struct collected collected;
    stage_init(&stage, NULL, inside);
    struct engine_allocs_spec spec = {.target = stage.target};
    collect_init(&collected);
    CHECK_INT(engine_allocs_poll(stage.engine, &spec, "scraper", false, &collect_events, &collected,
                                 NULL),
              ==, SONDE_OK);
    collect_wait_end(&collected);
    CHECK_INT(collected.err, ==, SONDE_NOT_AVAILABLE);
    CHECK(strstr(collected.diag.text, "ask for some seconds, or start it with MALLOC_CONF="
                                      "prof:true,prof_accum:true") != NULL);
    collect_finish(&collected);
    stage_finish(&stage);
}

TEST(hooks_come_and_go_while_threads_allocate) {
    struct stage stage;
    struct window window;
    stage_init(&stage, NULL, inside);
    stage_tell(&stage, 'w');
    for (int i = 0; i < 10; i++) {
        window_open(&window, &stage, (struct engine_allocs_spec){.sample_bytes = 1 << 20});
        engine_capture_finish(window.capture);
        (void)window_result(&window);
        window_finish(&window);
        stage_tell(&stage, 'p');
    }
    stage_tell(&stage, 'W');
    stage_finish(&stage);
}

TEST(windows_end_with_the_service) {
    struct stage stage;
    struct window window;
    stage_init(&stage, NULL, plain);
    window_open(&window, &stage, (struct engine_allocs_spec){0});
    engine_destroy(stage.engine);
    collect_wait_end(&window.collected);
    CHECK_INT(window.collected.err, ==, SONDE_UNAVAILABLE);
    window_finish(&window);
    stage.engine = place_engine(&stage.place);
    stage_wait_attached(&stage);
    window_open(&window, &stage, (struct engine_allocs_spec){.sample_bytes = 1});
    stage_tell(&stage, 's');
    engine_capture_finish(window.capture);
    CHECK_NEAR(objects_of(window_result(&window)), OBJECTS, 100);
    window_finish(&window);
    stage_finish(&stage);
}
