/* SPDX-License-Identifier: Apache-2.0
 *
 * Captures of processes without a guest, and which source a capture gets. Needs perf. */
#include "tests/unit/engine/host/sleepers.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

__attribute__((noinline, used)) static void burn(void) {
    for (volatile uint64_t i = 0;; i++) {
    }
}

/* A process that uses the CPU; called as the test. */
static pid_t start_burner(void) {
    int ready[2];
    char byte;
    CHECK_INT(pipe(ready), ==, 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (write(ready[1], "x", 1) == 1)
            burn();
        _exit(1);
    }
    CHECK_INT(read(ready[0], &byte, 1), ==, 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static void require_perf(struct scene *scene) {
    struct host_right rights[RIGHT_KINDS];
    engine_rights(scene->engine, rights);
    if (!rights[RIGHT_PERF_OWN].is_granted)
        check_skip("the kernel refuses perf events: %s", rights[RIGHT_PERF_OWN].reason);
}

static struct engine_capture *begin(struct scene *scene, const struct engine_cpu_spec *spec,
                                    struct collected *collected) {
    struct engine_capture *capture = NULL;
    collect_init(collected);
    sonde_err err =
        engine_capture_cpu(scene->engine, spec, &collect_events, collected, &capture, &scene->diag);
    if (err)
        check_fail(__FILE__, __LINE__, "%s", scene->diag.text);
    return capture;
}

/* Waits until captures have counted so many samples. */
static void wait_for_samples(struct scene *scene, uint64_t count) {
    for (int i = 0; i < 30000 && scene->engine->samples_total < count; i++)
        usleep(1000);
    CHECK_INT(scene->engine->samples_total, >=, count);
}

/* The test itself is the process that is sampled. */
static void burn_until_sampled(struct scene *scene) {
    time_t end = time(NULL) + 60;
    while (scene->engine->samples_total == 0 && time(NULL) < end)
        continue;
    CHECK_INT(scene->engine->samples_total, >, 0);
}

static const struct sonde_profile *finish(struct engine_capture *capture,
                                          struct collected *collected) {
    engine_capture_finish(capture);
    collect_wait_end(collected);
    engine_capture_release(capture);
    if (collected->err)
        check_fail(__FILE__, __LINE__, "%s", collected->diag.text);
    CHECK_INT(collected->profile_count, ==, 1);
    return collected->profiles[0];
}

/* As the list of all processes says. */
static uint32_t captures_of(struct scene *scene, pid_t pid) {
    size_t count;
    uint32_t running = 0;
    struct engine_target *list = engine_processes(scene->engine, &count);
    for (size_t i = 0; i < count; i++)
        running += list[i].pid == pid ? list[i].captures_running : 0;
    free(list);
    return running;
}

TEST(a_process_without_a_guest_is_profiled) {
    struct scene scene;
    struct collected collected;
    scene_init(&scene);
    require_perf(&scene);
    pid_t pid = start_burner();
    const struct engine_cpu_spec spec = {.target = {.pid = pid}, .frequency_hz = 499};
    struct engine_capture *capture = begin(&scene, &spec, &collected);
    wait_for_samples(&scene, 1);
    CHECK_INT(captures_of(&scene, pid), ==, 1);
    const struct sonde_profile *profile = finish(capture, &collected);
    CHECK_INT(captures_of(&scene, pid), ==, 0);
    CHECK_INT(collect_sum(profile, "burn"), >, 0);
    CHECK(strncmp(collected.clock, "perf-", 5) == 0);
    CHECK(strncmp(collect_comment(profile, "target: "), "target: host_capture_test, pid ", 31) ==
          0);
    CHECK_INT(scene.engine->host_count, ==, 1);
    collect_finish(&collected);
    end(pid);
    scene_finish(&scene);
}

TEST(a_capture_ends_with_its_process_and_keeps_what_it_has) {
    struct scene scene;
    struct collected collected;
    scene_init(&scene);
    require_perf(&scene);
    pid_t pid = start_burner();
    const struct engine_cpu_spec spec = {.target = {.pid = pid}, .frequency_hz = 499};
    struct engine_capture *capture = begin(&scene, &spec, &collected);
    wait_for_samples(&scene, 1);
    end(pid);
    collect_wait_end(&collected);
    CHECK_INT(collected.err, ==, SONDE_OK);
    CHECK_INT(collect_sum(collected.profiles[0], NULL), >, 0);
    CHECK(strstr(collect_comment(collected.profiles[0], "target: "), "ended during the capture"));
    engine_capture_release(capture);
    collect_finish(&collected);
    scene_finish(&scene);
}

TEST(processes_of_one_name_are_told_apart_by_pid) {
    struct scene scene;
    struct collected collected;
    char text[80];
    scene_init(&scene);
    require_perf(&scene);
    pid_t one = start_burner(), two = start_burner();
    const struct engine_cpu_spec spec = {.target = {.name = "host_capture_test", .all = true},
                                         .frequency_hz = 499};
    struct engine_capture *capture = begin(&scene, &spec, &collected);
    wait_for_samples(&scene, 100); /* of both */
    const struct sonde_profile *profile = finish(capture, &collected);
    snprintf(text, sizeof text, "host_capture_test (%d)", (int)one);
    CHECK_INT(collect_sum(profile, text), >, 0);
    snprintf(text, sizeof text, "host_capture_test (%d)", (int)two);
    CHECK_INT(collect_sum(profile, text), >, 0);
    CHECK_STR(collect_comment(profile, "target: "), "target: @all:host_capture_test");
    const struct sonde_sample sample = sonde_profile_sample(profile, 0);
    const struct sonde_location *root =
        sonde_profile_location(profile, sample.locations[sample.location_count - 1]);
    CHECK_INT(root->kind, ==, SONDE_FRAME_NOTE);
    collect_finish(&collected);
    end(one);
    end(two);
    scene_finish(&scene);
}

/* --- which source ----------------------------------------------------------------------------- */

/* The test itself is the attached process. */
TEST(a_request_can_force_a_source) {
    struct scene scene;
    struct fake_guest guest;
    struct collected collected;
    scene_init(&scene);
    require_perf(&scene);
    fake_attach(&guest, scene.place.socket, "fake", 1);
    struct engine_cpu_spec spec = {
        .target = {.pid = getpid()}, .frequency_hz = 499, .source = ENGINE_HOST};
    struct engine_capture *capture = begin(&scene, &spec, &collected);
    burn_until_sampled(&scene);
    CHECK_INT(captures_of(&scene, getpid()), ==, 1);
    size_t count;
    struct engine_target *attached = engine_targets(scene.engine, &count);
    CHECK_INT(count, ==, 1);
    CHECK_INT(attached[0].captures_running, ==, 1);
    free(attached);
    (void)finish(capture, &collected);
    CHECK(strncmp(collected.clock, "perf-", 5) == 0);
    CHECK(fake_is_quiet(&guest, 1));
    collect_finish(&collected);
    spec.source = ENGINE_GUEST;
    capture = begin(&scene, &spec, &collected);
    wait_for_state(scene.engine, fake_start(&guest).sequence);
    engine_capture_finish(capture);
    fake_stop(&guest);
    (void)finish(capture, &collected);
    CHECK_STR(collected.clock, "fake");
    collect_finish(&collected);
    fake_close(&guest);
    scene_finish(&scene);
}

/* The target that a capture of the test gets; *note says why. */
static bool is_from_outside(struct scene *scene, struct engine_cpu_spec spec, const char **note) {
    struct target *target;
    spec.target.pid = getpid();
    CHECK_INT(find_for_cpu(scene->engine, &spec, &target, note, &scene->diag), ==, SONDE_OK);
    bool is_host = target->host != NULL;
    target_release(target);
    return is_host;
}

static bool uses_labels(struct scene *scene) {
    const struct engine_cpu_spec guest = {
        .target = {.pid = getpid()}, .frequency_hz = 99, .source = ENGINE_GUEST};
    struct target *target;
    const char *note;
    CHECK_INT(find_for_cpu(scene->engine, &guest, &target, &note, &scene->diag), ==, SONDE_OK);
    bool uses = target->uses_labels;
    target_release(target);
    return uses;
}

TEST(a_profile_says_why_its_source_was_chosen) {
    struct scene scene;
    struct fake_guest guest;
    struct collected collected;
    scene_init(&scene);
    require_perf(&scene);
    fake_attach(&guest, scene.place.socket, "fake", 1);
    scene.engine->source = ENGINE_AUTOMATIC;
    if (!engine_has_right(scene.engine, RIGHT_PERF_ALL))
        check_skip("the kernel does not let us sample all CPUs");
    const struct engine_cpu_spec spec = {.target = {.pid = getpid()}, .frequency_hz = 499};
    struct engine_capture *capture = begin(&scene, &spec, &collected);
    burn_until_sampled(&scene);
    const struct sonde_profile *profile = finish(capture, &collected);
    CHECK_STR(collected.clock_note, "");
    CHECK(strncmp(collect_comment(profile, "target: "), "target: fake, pid ", 18) == 0);
    CHECK_STR(collect_comment(profile, "sampled: "), "sampled: from outside");
    CHECK(fake_is_quiet(&guest, 1));
    collect_finish(&collected);
    fake_close(&guest);
    scene_finish(&scene);
}

TEST(a_guest_says_that_labels_are_in_use_before_any_capture) {
    struct scene scene;
    struct fake_guest guest;
    scene_init(&scene);
    fake_attach(&guest, scene.place.socket, "fake", 1);
    CHECK(!uses_labels(&scene));
    sonde_guest_v1_FromGuest message = sonde_guest_v1_FromGuest_init_zero;
    message.which_message = sonde_guest_v1_FromGuest_uses_labels_tag;
    message.message.uses_labels = true;
    fake_send(&guest, &message, -1);
    for (int i = 0; i < 30000 && !uses_labels(&scene); i++)
        usleep(1000);
    CHECK(uses_labels(&scene));
    fake_close(&guest);
    scene_finish(&scene);
}

TEST(automatic_means_from_outside_unless_only_the_guest_can_answer) {
    struct scene scene;
    struct fake_guest guest;
    struct collected collected;
    const char *note;
    scene_init(&scene);
    fake_attach(&guest, scene.place.socket, "fake", 1);
    struct engine_cpu_spec spec = {.target = {.pid = getpid()}, .frequency_hz = 99};
    CHECK(!is_from_outside(&scene, spec, &note)); /* the tests' engine prefers guests */
    CHECK_STR(note, "");
    scene.engine->source = ENGINE_AUTOMATIC;
    bool may = engine_has_right(scene.engine, RIGHT_PERF_ALL);
    CHECK(is_from_outside(&scene, spec, &note) == may);
    CHECK(may ? !note[0] : strstr(note, "CAP_PERFMON") != NULL);
    spec.is_recording = true;
    CHECK(!is_from_outside(&scene, spec, &note));
    spec.source = ENGINE_HOST;
    CHECK(is_from_outside(&scene, spec, &note));
    spec = (struct engine_cpu_spec){.frequency_hz = 99, .event = SONDE_OFF_CPU};
    CHECK(!is_from_outside(&scene, spec, &note));
    spec.event = SONDE_ON_CPU;
    spec.source = ENGINE_GUEST;
    spec.target.pid = getpid();
    struct engine_capture *capture = begin(&scene, &spec, &collected);
    wait_for_state(scene.engine, fake_start(&guest).sequence);
    CHECK(fake_push_thread(&guest, 7, "worker", 3, "checkout"));
    fake_wait_drained(&guest);
    engine_capture_finish(capture);
    fake_stop(&guest);
    (void)finish(capture, &collected);
    collect_finish(&collected);
    spec.source = ENGINE_AUTOMATIC;
    CHECK(!is_from_outside(&scene, spec, &note));
    CHECK(strstr(note, "uses labels"));
    spec.source = ENGINE_HOST;
    CHECK(is_from_outside(&scene, spec, &note));
    fake_close(&guest);
    scene_finish(&scene);
}

static void stop(struct scene *scene, pid_t pid, struct collected *collected) {
    const struct engine_selector selector = {.pid = pid};
    collect_init(collected);
    CHECK_INT(engine_session_stop(scene->engine, &selector, &collect_events, collected, NULL), ==,
              SONDE_OK);
    collect_wait_end(collected);
    CHECK_INT(collected->err, ==, SONDE_OK);
    CHECK_INT(collected->profile_count, ==, 1);
}

TEST(a_session_of_a_process_without_a_guest_keeps_its_result) {
    struct scene scene;
    struct collected first, again;
    scene_init(&scene);
    require_perf(&scene);
    pid_t pid = start_burner();
    const struct engine_cpu_spec spec = {.target = {.pid = pid}, .frequency_hz = 499};
    stop(&scene, pid, &first); /* none has run: an empty profile */
    CHECK_INT(collect_sum(first.profiles[0], NULL), ==, 0);
    collect_finish(&first);
    CHECK_INT(engine_session_start(scene.engine, &spec, 60000, "ann", NULL, NULL), ==, SONDE_OK);
    CHECK_INT(engine_session_start(scene.engine, &spec, 60000, "bob", NULL, &scene.diag), ==,
              SONDE_SESSION_BUSY);
    CHECK(says(&scene, "started by ann"));
    wait_for_samples(&scene, 1);
    stop(&scene, pid, &first);
    CHECK_INT(collect_sum(first.profiles[0], NULL), >, 0);
    stop(&scene, pid, &again);
    CHECK_INT(collect_sum(again.profiles[0], NULL), ==, collect_sum(first.profiles[0], NULL));
    CHECK(strncmp(again.clock, "perf-", 5) == 0);
    collect_finish(&first);
    collect_finish(&again);
    end(pid);
    scene_finish(&scene);
}

TEST(a_process_has_one_session_whatever_its_source) {
    struct scene scene;
    struct fake_guest guest;
    struct collected collected;
    scene_init(&scene);
    require_perf(&scene);
    fake_attach(&guest, scene.place.socket, "fake", 1);
    struct engine_cpu_spec spec = {
        .target = {.pid = getpid()}, .frequency_hz = 499, .source = ENGINE_HOST};
    CHECK_INT(engine_session_start(scene.engine, &spec, 60000, "ann", NULL, NULL), ==, SONDE_OK);
    spec.source = ENGINE_GUEST;
    CHECK_INT(engine_session_start(scene.engine, &spec, 60000, "bob", NULL, &scene.diag), ==,
              SONDE_SESSION_BUSY);
    CHECK(says(&scene, "started by ann"));
    burn_until_sampled(&scene);
    stop(&scene, getpid(), &collected); /* does not say which source */
    CHECK_INT(collect_sum(collected.profiles[0], NULL), >, 0);
    collect_finish(&collected);
    fake_close(&guest);
    scene_finish(&scene);
}
