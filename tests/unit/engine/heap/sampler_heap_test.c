/* SPDX-License-Identifier: Apache-2.0
 *
 * Heap profiling by Sonde's sampler, of programs whose allocator cannot profile. From the engine's
 * side. */
#include "api/profile/heap/jemalloc.h"
#include "tests/unit/engine/heap/stage.h"

#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const char *const plain[] = {"tests/unit/engine/heap/holder_plain", NULL};

static struct asked activate(struct stage *stage, uint64_t sample_bytes) {
    struct engine_heap_request request = {
        .verb = ENGINE_HEAP_ACTIVATE, .sample_bytes = sample_bytes, .owner = "test"};
    struct asked asked = stage_ask(stage, request);
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK(asked.state.active && asked.state.available);
    CHECK_INT(asked.state.backend, ==, ENGINE_HEAP_INTERPOSED);
    CHECK_STR(asked.state.note, ""); /* no advice on how to get what is on */
    return asked;
}

/* The deviation, in bytes, of an estimate for n objects of one size. */
static double deviation(double n, double size, double mean) {
    double p = -expm1(-size / mean);
    return size * sqrt(n * (1 - p) / p);
}

/* There are many sites in many tests, and three deviations are exceeded in one case of 370. */
static void check_site(const struct sonde_profile *profile, const char *site, double bytes,
                       double error) {
    int64_t estimate = profile_bytes(profile, site);
    printf("  %s: %lld of %.0f +- %.0f\n", site, (long long)estimate, bytes, error);
    CHECK_NEAR(estimate, bytes, 5 * error + 1);
}

static void check_holder(const struct sonde_profile *profile, double mean) {
    check_site(profile, "hold_small", 64000 * 1000.0, deviation(64000, 1000, mean));
    check_site(profile, "hold_large", 50 * 1048576.0, deviation(50, 1 << 20, mean));
    check_site(profile, "hold_mixed", 160000.0 / 8 * (7 * 32 + 2048),
               hypot(deviation(140000, 32, mean), deviation(20000, 2048, mean)));
}

static struct sonde_profile *snapshot(struct stage *stage) {
    struct got got = stage_get(stage, (struct engine_heap_query){.require_active = true});
    if (got.err)
        printf("  %s\n", got.diag.text);
    CHECK_INT(got.err, ==, SONDE_OK);
    return got.result.profile;
}

static int64_t unix_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

TEST(a_snapshot_says_when_it_was_taken) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    activate(&stage, 65536);
    stage_tell(&stage, 'd');
    int64_t before = unix_ns();
    struct sonde_profile *profile = snapshot(&stage);
    const struct sonde_profile_info *info = sonde_profile_info(profile);
    CHECK_INT(info->time_unix_ns, >=, before);
    CHECK_INT(info->time_unix_ns, <=, unix_ns());
    CHECK_INT(info->duration_ns, ==, 0);
    sonde_profile_destroy(profile);
    stage_finish(&stage);
}

TEST(h2_h6_a_live_set_in_glibc_is_estimated_by_site_also_after_a_reset) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    struct asked asked = activate(&stage, 65536);
    CHECK_INT(asked.state.sample_bytes, ==, 65536);
    stage_tell(&stage, 's');
    struct sonde_profile *profile = snapshot(&stage);
    check_holder(profile, 65536);
    CHECK_INT(sonde_profile_type_count(profile), ==, 4);
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        CHECK(strstr(profile_leaf(profile, i), "malloc") == NULL);
        CHECK(strstr(profile_leaf(profile, i), "sampler") == NULL);
    }
    CHECK_INT(profile_bytes(profile, "main"), >, 100 << 20); /* whole stacks */
    sonde_profile_destroy(profile);
    stage_tell(&stage, 'f');
    struct engine_heap_request reset = {.verb = ENGINE_HEAP_RESET, .sample_bytes = 16384};
    asked = stage_ask(&stage, reset);
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK_INT(asked.state.sample_bytes, ==, 16384);
    CHECK_INT(asked.state.epoch, >=, 2);
    stage_tell(&stage, 's');
    profile = snapshot(&stage);
    check_holder(profile, 16384);
    sonde_profile_destroy(profile);
    stage_finish(&stage);
}

TEST(a_deep_stack_keeps_its_leaf_and_its_root_and_says_so) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    activate(&stage, 65536);
    stage_tell(&stage, 'D');
    struct sonde_profile *profile = snapshot(&stage);
    CHECK_INT(profile_bytes(profile, "main"), >=, 20 << 20);
    CHECK_INT(profile_bytes(profile, "[truncated]"), ==, profile_bytes(profile, "main"));
    CHECK_STR(profile_leaf(profile, 0), "hold_deep");
    sonde_profile_destroy(profile);
    stage_finish(&stage);
}

TEST(what_was_freed_is_in_the_totals_alone) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    activate(&stage, 65536);
    stage_tell(&stage, 's');
    stage_tell(&stage, 'f');
    struct sonde_profile *profile = snapshot(&stage);
    CHECK_INT(profile_bytes(profile, "hold_large"), ==, 0);
    int64_t all = sonde_profile_total(profile, sonde_profile_find_type(profile, "alloc_space"));
    CHECK_NEAR(all, 64000e3 + 50 * 1048576.0 + 20000.0 * 2272, 20e6);
    sonde_profile_destroy(profile);
    struct asked asked = stage_ask_verb(&stage, ENGINE_HEAP_DEACTIVATE);
    CHECK(asked.state.was_active && !asked.state.active);
    struct got got = stage_get(&stage, (struct engine_heap_query){0});
    CHECK_INT(got.err, ==, SONDE_NOT_ACTIVE);
    activate(&stage, 65536);
    profile = snapshot(&stage);
    CHECK_INT(sonde_profile_total(profile, 1), <, 1000000); /* from the beginning */
    sonde_profile_destroy(profile);
    stage_finish(&stage);
}

TEST(a_raw_snapshot_of_ours_is_as_jemalloc_writes_it_and_reads_the_same) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    activate(&stage, 65536);
    stage_tell(&stage, 's');
    struct got got = stage_get(&stage, (struct engine_heap_query){.raw = true});
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK(strncmp(got.result.text.data, "heap_v2/65536\n  t*: ", 20) == 0);
    CHECK(strstr(got.result.text.data, "\nMAPPED_LIBRARIES:\n") != NULL);
    struct sonde_profile *read = NULL, *profile = snapshot(&stage);
    struct sonde_diag diag = {0};
    struct sonde_slice text = sonde_buf_slice(&got.result.text);
    CHECK_INT(sonde_jemalloc_read(text, 0, &read, &diag), ==, SONDE_OK);
    for (size_t type = 0; type < 4; type++) {
        double exact = (double)sonde_profile_total(profile, type);
        CHECK_NEAR(sonde_profile_total(read, type), exact, exact / 100 + 100);
    }
    sonde_profile_destroy(read);
    sonde_profile_destroy(profile);
    got_finish(&got);
    stage_finish(&stage);
}

static void check_ages(void) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    activate(&stage, 4096);
    stage_tell(&stage, 'd');
    usleep(600000);
    stage_tell(&stage, 's');
    struct got got = stage_get(&stage, (struct engine_heap_query){.older_than_ms = 500});
    CHECK_INT(got.err, ==, SONDE_OK);
    CHECK_INT(profile_bytes(got.result.profile, "hold_deep"), ==, 20 << 20);
    struct got none = stage_get(&stage, (struct engine_heap_query){.older_than_ms = 3600000});
    CHECK_INT(none.err, ==, SONDE_OK);
    CHECK_INT(sonde_profile_sample_count(none.result.profile), ==, 0);
    got_finish(&got);
    got_finish(&none);
    stage_finish(&stage);
}

TEST(objects_are_selected_by_age) {
    check_ages();
}

/* Children of this process get the other clock. */
static void enter_time_namespace(long offset_s) {
    FILE *file = unshare(CLONE_NEWTIME) == 0 ? fopen("/proc/self/timens_offsets", "w") : NULL;
    if (!file)
        check_skip("a time namespace needs CAP_SYS_ADMIN");
    fprintf(file, "monotonic %ld 0", offset_s);
    CHECK_INT(fclose(file), ==, 0);
}

TEST(objects_in_a_time_namespace_that_is_a_day_ahead_are_live_and_have_ages) {
    enter_time_namespace(86400);
    check_ages();
}

TEST(objects_in_a_time_namespace_that_is_behind_are_live_and_have_ages) {
    struct timespec up;
    clock_gettime(CLOCK_MONOTONIC, &up);
    enter_time_namespace(-up.tv_sec / 2); /* the kernel refuses times before the start */
    check_ages();
}

TEST(ages_of_jemallocs_objects_are_not_known) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
    struct got got = stage_get(&stage, (struct engine_heap_query){.older_than_ms = 500});
    CHECK_INT(got.err, ==, SONDE_NOT_AVAILABLE);
    CHECK(strstr(got.diag.text, "backend interposed") != NULL);
    stage_finish(&stage);
}

TEST(a_second_activation_is_refused_by_our_own_sampler_too) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    activate(&stage, 65536);
    struct asked second = stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE);
    CHECK_INT(second.err, ==, SONDE_SESSION_BUSY);
    CHECK(strstr(second.diag.text, "switched on by test") != NULL);
    CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_STATUS).state.sample_bytes, ==, 65536);
    stage_finish(&stage);
}

TEST(jemalloc_without_prof_is_sampled_in_its_place) {
    struct stage stage;
    stage_init(&stage, NULL, NULL);
    activate(&stage, 65536);
    stage_tell(&stage, 's');
    struct sonde_profile *profile = snapshot(&stage);
    check_holder(profile, 65536);
    sonde_profile_destroy(profile);
    stage_finish(&stage);
}

TEST(our_own_sampler_can_be_chosen_where_jemalloc_could) {
    struct stage stage;
    stage_init(&stage, STAGE_PROF, NULL);
    struct engine_heap_request request = {
        .verb = ENGINE_HEAP_ACTIVATE, .backend = ENGINE_HEAP_INTERPOSED, .sample_bytes = 65536};
    struct asked asked = stage_ask(&stage, request);
    CHECK_INT(asked.err, ==, SONDE_OK);
    CHECK_INT(asked.state.backend, ==, ENGINE_HEAP_INTERPOSED);
    stage_tell(&stage, 's');
    struct sonde_profile *profile = snapshot(&stage);
    check_holder(profile, 65536);
    sonde_profile_destroy(profile);
    asked = stage_ask_verb(&stage, ENGINE_HEAP_DEACTIVATE);
    CHECK_INT(asked.state.backend, ==, ENGINE_HEAP_JEMALLOC);
    stage_finish(&stage);
}

TEST(h4_a_snapshot_needs_nothing_of_the_program_not_even_that_it_runs) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    activate(&stage, 65536);
    stage_tell(&stage, 's');
    CHECK_INT(kill(stage.pid, SIGSTOP), ==, 0);
    struct sonde_profile *profile = snapshot(&stage);
    check_holder(profile, 65536);
    sonde_profile_destroy(profile);
    CHECK_INT(kill(stage.pid, SIGCONT), ==, 0);
    stage_tell(&stage, 'f');
    profile = snapshot(&stage);
    CHECK_INT(profile_bytes(profile, "hold_large"), ==, 0);
    sonde_profile_destroy(profile);
    stage_finish(&stage);
}

TEST(stacks_of_threads_and_deep_ones_are_whole) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    activate(&stage, 4096);
    stage_tell(&stage, 'd');
    stage_tell(&stage, 't');
    struct sonde_profile *profile = snapshot(&stage);
    CHECK_INT(profile_bytes(profile, "hold_deep"), ==, 5 * 20 << 20);
    CHECK_INT(profile_bytes(profile, "hold_in_thread"), ==, 4 * 20 << 20);
    CHECK_INT(profile_bytes(profile, "main"), >=, 20 << 20);
    sonde_profile_destroy(profile);
    stage_finish(&stage);
}

TEST(a_restart_of_sonded_finds_the_samples_again) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    activate(&stage, 65536);
    stage_tell(&stage, 's');
    stage_restart_engine(&stage);
    struct asked asked = stage_ask_verb(&stage, ENGINE_HEAP_STATUS);
    CHECK(asked.state.active);
    CHECK_STR(asked.state.owner, "test");
    CHECK_INT(asked.state.backend, ==, ENGINE_HEAP_INTERPOSED);
    struct sonde_profile *profile = snapshot(&stage);
    check_holder(profile, 65536);
    sonde_profile_destroy(profile);
    stage_finish(&stage);
}

TEST(dumps_by_the_clock_are_those_of_our_own_sampler) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    struct engine_heap_request request = {
        .verb = ENGINE_HEAP_ACTIVATE, .sample_bytes = 65536, .interval_s = 1};
    CHECK_INT(stage_ask(&stage, request).err, ==, SONDE_OK);
    stage_tell(&stage, 's');
    /* The next dump may begin while the program is still filling its memory; the one after it does
     * not. */
    struct asked asked = stage_ask_verb(&stage, ENGINE_HEAP_LIST);
    size_t wanted = asked.dump_count + 2;
    for (int i = 0; i < 200 && asked.dump_count < wanted; i++) {
        usleep(50000);
        asked = stage_ask_verb(&stage, ENGINE_HEAP_LIST);
    }
    CHECK_INT(asked.dump_count, >=, wanted);
    CHECK_INT(asked.state.dump_failures, ==, 0);
    struct got got = stage_get(&stage, (struct engine_heap_query){.name = asked.dumps[0].name});
    CHECK_INT(got.err, ==, SONDE_OK);
    check_holder(got.result.profile, 65536);
    got_finish(&got);
    stage_finish(&stage);
}

TEST(h15_a_thousand_activations_of_our_own_sampler_leak_nothing) {
    struct stage stage;
    stage_init(&stage, NULL, plain);
    struct engine_heap_request off = {.verb = ENGINE_HEAP_DEACTIVATE};
    for (int i = 0; i < 1000; i++) {
        CHECK_INT(stage_ask_verb(&stage, ENGINE_HEAP_ACTIVATE).err, ==, SONDE_OK);
        CHECK_INT(stage_ask(&stage, off).err, ==, SONDE_OK);
        if (i % 250 == 0)
            stage_tell(&stage, 't');
    }
    activate(&stage, 4096);
    stage_tell(&stage, 'd');
    struct sonde_profile *profile = snapshot(&stage);
    CHECK_INT(profile_bytes(profile, "hold_deep"), ==, 20 << 20);
    sonde_profile_destroy(profile);
    stage_finish(&stage);
}
