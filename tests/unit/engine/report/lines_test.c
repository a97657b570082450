/* SPDX-License-Identifier: Apache-2.0
 *
 * A report waits for line tables that are being built, and says when one was not ready in time. The
 * samples are in a library that the test compiles and loads. The worker is a script that delays
 * line tables. */
#include "tests/unit/engine/scene.h"
#include "tests/unit/symbol/dwarf/corpus.h"

#include <dlfcn.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static uint64_t monotonic_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000ull + (uint64_t)now.tv_nsec;
}

/* An address in a function that was inlined into lib_outer, in a library of that name. */
static uint64_t load_library(const char *name) {
    fixture_write("lib.c", "static inline __attribute__((always_inline)) int lib_inner(int x) {\n"
                           "    volatile int y = x;\n"
                           "    return y * 3;\n"
                           "}\n"
                           "int lib_outer(int x) {\n"
                           "    return lib_inner(x) + 1;\n"
                           "}\n");
    fixture_must("gcc", "gcc -g -O1 -fPIC -shared -Wl,--build-id=sha1 lib.c -o %s", name);
    void *library = dlopen(fixture_path("%s", name), RTLD_NOW);
    CHECK(library);
    void *outer = dlsym(library, "lib_outer");
    CHECK(outer);
    return (uint64_t)(uintptr_t)outer + 6; /* after an endbr64 */
}

/* Like scene_init, with a worker that runs `action` before it builds a line table. */
static void scene_with_worker(struct scene *scene, const char *action) {
    char text[1024];
    snprintf(text, sizeof text, "#!/bin/sh\n[ \"$2\" = symbols ] || %s\nexec %s \"$@\"\n", action,
             corpus_worker());
    fixture_write("worker.sh", text);
    CHECK_INT(fixture_run("chmod 700 worker.sh"), ==, 0);
    memset(scene, 0, sizeof *scene);
    place_make(&scene->place);
    struct engine_options options = {.source = ENGINE_GUEST,
                                     .socket_path = scene->place.socket,
                                     .data_dir = scene->place.data,
                                     .symbol_worker = fixture_path("worker.sh")};
    CHECK_INT(engine_create(&options, &scene->engine, NULL), ==, SONDE_OK);
    fake_attach(&scene->guest, scene->place.socket, "burner", 1);
    collect_init(&scene->collected);
}

static void feed(struct scene *scene, struct engine_cpu_spec *spec, uint64_t pc) {
    spec->frequency_hz = 100;
    begin(scene, spec);
    start_clock(scene);
    const uint64_t pcs[] = {pc, (uint64_t)(uintptr_t)burn_tree + 4};
    for (int i = 0; i < 50; i++)
        CHECK(fake_push_sample(&scene->guest, 1, 10 * MS, pcs, 2));
    settle(scene);
}

static void capture(struct scene *scene, struct engine_cpu_spec *spec, uint64_t pc) {
    feed(scene, spec, pc);
    engine_capture_finish(scene->capture);
    fake_stop(&scene->guest);
}

static const struct sonde_location *leaf(const struct sonde_profile *profile) {
    struct sonde_sample sample = sonde_profile_sample(profile, 0);
    return sonde_profile_location(profile, sample.locations[0]);
}

/* Whether the report for a new library has line numbers although its line table took some time. */
static bool report_has_lines(int attempt) {
    struct scene scene;
    struct engine_cpu_spec spec = {0};
    char name[32];
    snprintf(name, sizeof name, "libsoon%d.so", attempt);
    uint64_t pc = load_library(name);
    scene_with_worker(&scene, "sleep 0.2");
    capture(&scene, &spec, pc);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_OK);
    const struct sonde_profile *profile = scene.collected.profiles[0];
    const struct sonde_location *location = leaf(profile);
    bool has_lines = location->line_count > 0 && location->lines[0].line > 0;
    CHECK_INT(collect_comment(profile, "symbols: ")[0] == 0, ==, has_lines);
    CHECK_INT(collect_sum(profile, "lib_outer"), ==, 50);
    scene_finish(&scene);
    return has_lines;
}

/* A busy machine may need several attempts. */
TEST(a_report_waits_for_lines_that_are_being_made) {
    bool has_lines = false;
    for (int attempt = 0; attempt < 5 && !has_lines; attempt++)
        has_lines = report_has_lines(attempt);
    CHECK(has_lines);
}

TEST(a_report_without_its_line_table_says_so_and_progress_goes_on_meanwhile) {
    struct scene scene;
    struct engine_cpu_spec spec = {.progress_ms = 100};
    uint64_t pc = load_library("liblate.so");
    scene_with_worker(&scene, "exec sleep 100");
    capture(&scene, &spec, pc);
    uint32_t before = scene.collected.progress_count;
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_OK);
    CHECK_INT(scene.collected.overlaps, ==, 0);
    CHECK(scene.collected.progress_count >= before + 3);
    const struct sonde_profile *profile = scene.collected.profiles[0];
    CHECK_INT(collect_sum(profile, "lib_outer"), ==, 50); /* function names are present */
    const char *comment = collect_comment(profile, "symbols: ");
    if (!strstr(comment, "liblate.so: line numbers are being prepared"))
        check_fail(__FILE__, __LINE__, "the comment is \"%s\"", comment);
    CHECK_INT(leaf(profile)->lines[0].line, ==, 0);
    scene_finish(&scene);
}

/* Two reports need the same line table, and the deadline of one has passed. Whether that one took
 * less than half of the other's time, which is at least ENGINE_NAMES_NS. */
static bool hurried_comes_first(int attempt) {
    struct scene scene;
    struct collected patient;
    struct engine_capture *other;
    char name[32];
    snprintf(name, sizeof name, "libhurry%d.so", attempt);
    uint64_t pc = load_library(name);
    scene_with_worker(&scene, "exec sleep 100");
    collect_init(&patient);
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    CHECK_INT(engine_capture_cpu(scene.engine, &spec, &collect_events, &patient, &other, NULL), ==,
              SONDE_OK);
    spec.result_by_ns = 1;
    feed(&scene, &spec, pc);
    uint64_t start_ns = monotonic_ns();
    engine_capture_finish(other);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    uint64_t hurried_ns = monotonic_ns() - start_ns;
    collect_wait_end(&patient);
    uint64_t patient_ns = monotonic_ns() - start_ns;
    CHECK_INT(scene.collected.err, ==, SONDE_OK);
    CHECK(strstr(collect_comment(patient.profiles[0], "symbols: "), name));
    engine_capture_release(other);
    scene_finish(&scene);
    collect_finish(&patient);
    return 2 * hurried_ns < patient_ns;
}

/* Without a deadline, both would take the same time in every attempt. */
TEST(a_report_does_not_wait_until_its_client_has_gone) {
    bool comes_first = false;
    for (int attempt = 0; attempt < 5 && !comes_first; attempt++)
        comes_first = hurried_comes_first(attempt);
    CHECK(comes_first);
}

TEST(a_capture_whose_report_waits_can_be_cancelled) {
    struct scene scene;
    struct engine_cpu_spec spec = {0};
    uint64_t pc = load_library("libcancel.so");
    scene_with_worker(&scene, "exec sleep 100");
    capture(&scene, &spec, pc);
    usleep(100000);
    engine_capture_cancel(scene.capture);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_CANCELLED);
    CHECK_INT(scene.collected.profile_count, ==, 0);
    scene_finish(&scene);
}

TEST(a_profile_says_why_it_has_no_line_numbers) {
    struct scene scene;
    struct engine_cpu_spec spec = {0};
    uint64_t pc = load_library("libbad.so");
    scene_with_worker(&scene, "exit 12");
    capture(&scene, &spec, pc);
    collect_wait_end(&scene.collected);
    const char *comment = collect_comment(scene.collected.profiles[0], "symbols: ");
    CHECK(strstr(comment,
                 "libbad.so: no line numbers: the file needs more memory than the worker may use"));
    scene_finish(&scene);
}
