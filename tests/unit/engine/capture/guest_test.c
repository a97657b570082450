/* SPDX-License-Identifier: Apache-2.0
 *
 * The real guest: a real engine captures a program with known shares and libsonde.so preloaded. */
#include "tests/unit/check.h"
#include "tests/unit/engine/collect.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIBRARY "service/guest/libsonde.so"
#define BURNER  "tests/unit/engine/capture/burner"

struct stage {
    struct place place;
    struct engine *engine;
    pid_t pid;
};

static void launch(struct stage *stage) {
    char library[4096], cwd[2048];
    CHECK(getcwd(cwd, sizeof cwd) != NULL);
    snprintf(library, sizeof library, "%s/" LIBRARY, cwd);
    if (access(library, R_OK) != 0)
        check_skip("no %s here", library);
    stage->pid = fork();
    CHECK(stage->pid >= 0);
    if (stage->pid == 0) {
        setenv("LD_PRELOAD", library, 1);
        setenv("SONDE_SOCKET", stage->place.socket, 1);
        setenv("SONDE_NAME", "burner", 1);
        execl(BURNER, "burner", (char *)NULL);
        _exit(127);
    }
}

static void stage_init(struct stage *stage) {
    struct engine_target target;
    struct engine_selector selector = {.name = "burner"};
    place_make(&stage->place);
    stage->engine = place_engine(&stage->place);
    launch(stage);
    for (int i = 0; i < 1000; i++) {
        if (engine_find(stage->engine, &selector, &target, NULL) == SONDE_OK &&
            !target.is_unattached)
            break;
        usleep(10000);
    }
    CHECK_INT(engine_find(stage->engine, &selector, &target, NULL), ==, SONDE_OK);
    CHECK_INT(target.pid, ==, stage->pid);
}

static void stage_finish(struct stage *stage) {
    kill(stage->pid, SIGKILL);
    waitpid(stage->pid, NULL, 0);
    engine_destroy(stage->engine);
    place_remove(&stage->place);
}

static void run_capture(struct stage *stage, const struct engine_cpu_spec *spec,
                        struct collected *collected) {
    struct engine_capture *capture;
    struct sonde_diag diag = {0};
    collect_init(collected);
    CHECK_INT(engine_capture_cpu(stage->engine, spec, &collect_events, collected, &capture, &diag),
              ==, SONDE_OK);
    collect_wait_end(collected);
    engine_capture_release(capture);
    printf("  %s", sonde_diag_text(&collected->diag, collected->err));
    if (collected->err == SONDE_NO_CLOCK)
        check_skip("%s", collected->diag.text);
    CHECK_INT(collected->err, ==, SONDE_OK);
    CHECK_INT(collected->profile_count, ==, 1);
    for (size_t i = 0; i < sonde_profile_comment_count(collected->profiles[0]); i++)
        printf("  %s\n", sonde_profile_comment(collected->profiles[0], i));
}

static double share(const struct sonde_profile *profile, const char *function) {
    return (double)collect_sum(profile, function) / (double)sonde_profile_total(profile, 0);
}

static void check_shares(const struct sonde_profile *profile, double tolerance) {
    CHECK_NEAR(share(profile, "burn_seventy"), 0.7, tolerance);
    CHECK_NEAR(share(profile, "burn_twenty"), 0.2, tolerance);
    CHECK_NEAR(share(profile, "burn_ten"), 0.1, tolerance);
}

TEST(known_shares_callers_and_thread_names_come_out_of_a_preloaded_guest) {
    struct stage stage;
    struct collected collected;
    struct engine_cpu_spec spec = {.frequency_hz = 999, .duration_ms = 2000};
    stage_init(&stage);
    run_capture(&stage, &spec, &collected);
    const struct sonde_profile *profile = collected.profiles[0];
    CHECK_INT(sonde_profile_total(profile, 0), >, 200);
    check_shares(profile, 0.05);
    CHECK(share(profile, "work") > 0.8);
    CHECK(share(profile, "run") > 0.98); /* callers up to the thread's start */
    int64_t named = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        const char *thread = sonde_sample_label(profile, &sample, "thread");
        if (strcmp(thread, "alpha") == 0 || strcmp(thread, "beta") == 0 ||
            strcmp(thread, "gamma") == 0)
            named += sample.values[0];
    }
    CHECK_NEAR((double)named / (double)sonde_profile_total(profile, 0), 1, 0.02);
    double sampled_ns = (double)sonde_profile_total(profile, 1);
    CHECK(collected.metadata[0].target_cpu_ns > 0);
    CHECK_NEAR(sampled_ns / (double)collected.metadata[0].target_cpu_ns, 1, 0.05);
    const char *coverage = collect_comment(profile, "coverage: ");
    CHECK(strstr(coverage, " % ± ") != NULL || strstr(coverage, "agrees with the CPU clock"));
    collect_finish(&collected);
    stage_finish(&stage);
}

/* Chance decides what few samples stand for: an idle target was "covered" by 160 %. */
TEST(coverage_is_no_percentage_if_there_are_few_samples) {
    struct stage stage;
    struct collected collected;
    struct engine_cpu_spec spec = {.frequency_hz = 10, .duration_ms = 300};
    stage_init(&stage);
    run_capture(&stage, &spec, &collected);
    const char *coverage = collect_comment(collected.profiles[0], "coverage: ");
    CHECK(strstr(coverage, "agrees with the CPU clock") != NULL);
    collect_finish(&collected);
    stage_finish(&stage);
}

TEST(captures_of_two_rates_side_by_side_agree) {
    struct stage stage;
    struct collected fast, slow;
    struct engine_capture *capture;
    struct engine_cpu_spec slow_spec = {.frequency_hz = 99, .duration_ms = 2500},
                           fast_spec = {.frequency_hz = 1500, .duration_ms = 1500};
    stage_init(&stage);
    collect_init(&slow);
    CHECK_INT(engine_capture_cpu(stage.engine, &slow_spec, &collect_events, &slow, &capture, NULL),
              ==, SONDE_OK);
    run_capture(&stage, &fast_spec, &fast);
    collect_wait_end(&slow);
    engine_capture_release(capture);
    CHECK_INT(slow.err, ==, SONDE_OK);
    check_shares(fast.profiles[0], 0.06);
    check_shares(slow.profiles[0], 0.15);
    collect_finish(&fast);
    collect_finish(&slow);
    stage_finish(&stage);
}

TEST(killing_the_target_in_mid_capture_leaves_a_profile) {
    struct stage stage;
    struct collected collected;
    struct engine_capture *capture;
    struct engine_cpu_spec spec = {.frequency_hz = 499, .duration_ms = 60000, .progress_ms = 200};
    stage_init(&stage);
    collect_init(&collected);
    CHECK_INT(engine_capture_cpu(stage.engine, &spec, &collect_events, &collected, &capture, NULL),
              ==, SONDE_OK);
    collect_wait_progress(&collected, 2);
    kill(stage.pid, SIGKILL);
    collect_wait_end(&collected);
    CHECK_INT(collected.err, ==, SONDE_OK);
    CHECK(collected.metadata[0].target_gone);
    CHECK(share(collected.profiles[0], "burn_seventy") > 0.4);
    engine_capture_release(capture);
    collect_finish(&collected);
    stage_finish(&stage);
}

TEST(a_guest_reconnects_when_sonded_restarts) {
    struct stage stage;
    struct collected collected;
    struct engine_cpu_spec spec = {.frequency_hz = 499, .duration_ms = 600};
    struct engine_target target;
    struct engine_selector selector = {.name = "burner"};
    stage_init(&stage);
    engine_destroy(stage.engine);
    stage.engine = place_engine(&stage.place);
    for (int i = 0; i < 1000; i++) {
        if (engine_find(stage.engine, &selector, &target, NULL) == SONDE_OK &&
            !target.is_unattached)
            break;
        usleep(10000);
    }
    run_capture(&stage, &spec, &collected);
    CHECK(share(collected.profiles[0], "burn_seventy") > 0.4);
    collect_finish(&collected);
    stage_finish(&stage);
}
