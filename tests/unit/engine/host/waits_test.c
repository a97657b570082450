/* SPDX-License-Identifier: Apache-2.0
 *
 * Off-CPU and wall captures of a real process that has no guest: as root by the BPF program, and as
 * an ordinary user (AS_NOBODY) by looks from outside. */
#include "tests/unit/check.h"
#include "tests/unit/engine/collect.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS 1000000ull

#ifdef AS_NOBODY
static const bool has_bpf = false;

__attribute__((constructor)) static void become_nobody(void) {
    const char *folder = getenv("TMPDIR");
    if (geteuid() != 0)
        return;
    if (!folder || chmod(folder, 0777) || setresgid(65534, 65534, 65534) ||
        setresuid(65534, 65534, 65534) || prctl(PR_SET_DUMPABLE, 1))
        abort();
}
#else
static const bool has_bpf = true;
#endif

static void sleep_ns(uint64_t ns) {
    struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (clock_nanosleep(CLOCK_MONOTONIC, 0, &time, &time) == EINTR)
        continue;
}

/* --- The process --------------------------------------------------------------------------------
 */

static _Atomic int *ready;

void *sleeps_always(void *unused);
void naps_often(void);
void naps_long(void);
void naps_on_order(void);

__attribute__((noinline)) void *sleeps_always(void *unused) {
    ++*ready;
    for (;;)
        pause();
}

__attribute__((noinline)) void naps_often(void) {
    sleep_ns(2 * MS);
    __asm__ volatile("");
}

__attribute__((noinline)) void naps_long(void) {
    sleep_ns(30 * MS);
    __asm__ volatile("");
}

__attribute__((noinline)) void naps_on_order(void) {
    sleep_ns(15 * MS);
    __asm__ volatile("");
}

static void *obeys(void *unused) {
    ++*ready;
    while (*ready > 0) {
        for (; ready[2] > 0; --ready[2])
            naps_on_order();
        sleep_ns(MS);
    }
    return NULL;
}

static void *naps(void *unused) {
    ++*ready;
    while (*ready > 0) {
        for (int i = 0; i < 5; i++)
            naps_often();
        naps_long();
    }
    return NULL;
}

_Noreturn void child_sleeps(void);
__attribute__((noinline)) _Noreturn void child_sleeps(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;)
        sleep_ns(20 * MS);
}

_Noreturn void run_process(void);
__attribute__((noinline)) _Noreturn void run_process(void) {
    pthread_t thread;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (pthread_create(&thread, NULL, sleeps_always, NULL) ||
        pthread_create(&thread, NULL, naps, NULL) || pthread_create(&thread, NULL, obeys, NULL))
        _exit(1);
    while (!ready[1])
        sleep_ns(5 * MS);
    if (fork() == 0)
        child_sleeps();
    for (;;)
        pause();
}

static pid_t start_process(void) {
    ready[0] = ready[1] = ready[2] = 0; /* [1]: fork a child, [2]: naps on order */
    pid_t pid = fork();
    CHECK_INT(pid, >=, 0);
    if (pid == 0)
        run_process();
    while (*ready < 3)
        sleep_ns(MS);
    sleep_ns(20 * MS);
    return pid;
}

/* --- Captures -----------------------------------------------------------------------------------
 */

struct scene {
    struct place place;
    struct engine *engine;
    struct collected collected;
    pid_t pid;
};

static void scene_start(struct scene *scene) {
    if (!ready)
        ready = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(ready != MAP_FAILED);
    place_make(&scene->place);
    scene->pid = start_process();
    scene->engine = place_engine(&scene->place);
    collect_init(&scene->collected);
}

static void scene_end(struct scene *scene) {
    kill(scene->pid, SIGKILL);
    waitpid(scene->pid, NULL, 0);
    engine_destroy(scene->engine);
    collect_finish(&scene->collected);
    place_remove(&scene->place);
}

static struct engine_capture *begin(struct scene *scene, struct engine_cpu_spec spec) {
    struct engine_capture *capture;
    struct sonde_diag diag = {0};
    spec.target.pid = scene->pid;
    spec.source = ENGINE_HOST;
    sonde_err err = engine_capture_cpu(scene->engine, &spec, &collect_events, &scene->collected,
                                       &capture, &diag);
    if (err)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
    return capture;
}

static const struct sonde_profile *capture(struct scene *scene, enum sonde_event_id event) {
    const struct engine_cpu_spec spec = {.frequency_hz = 200, .event = event, .duration_ms = 500};
    engine_capture_release(begin(scene, spec));
    collect_wait_end(&scene->collected);
    CHECK_STR(scene->collected.diag.text, "");
    CHECK_INT(scene->collected.err, ==, SONDE_OK);
    CHECK_INT(scene->collected.profile_count, ==, 1);
    return scene->collected.profiles[0];
}

static uint64_t length_ns(const struct scene *scene) {
    const struct engine_metadata *metadata = &scene->collected.metadata[0];
    return (uint64_t)(metadata->end_unix_ns - metadata->start_unix_ns);
}

static double ns_of(const struct sonde_profile *profile, const char *function) {
    return (double)collect_sum(profile, function) * 5.0 * MS; /* 200 Hz */
}

static void print(const struct sonde_profile *profile) {
    static const char *const names[] = {
        "sleeps_always",       "naps_often",          "naps_long",   "run_process",
        "[waiting for a CPU]", "[blocked, not seen]", "child_sleeps"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        printf("  %-20s %6.0f ms\n", names[i], ns_of(profile, names[i]) / MS);
}

TEST(off_cpu_time_is_where_it_was_spent) {
    struct scene scene;
    scene_start(&scene);
    const struct sonde_profile *profile = capture(&scene, SONDE_OFF_CPU);
    double ns = (double)length_ns(&scene), near_ns = 0.2 * ns;
    print(profile);
    CHECK_STR(sonde_profile_type(profile, 1).type, "off_cpu");
    CHECK_NEAR(ns_of(profile, "sleeps_always"), ns, near_ns); /* blocked all the time */
    CHECK_NEAR(ns_of(profile, "run_process"), ns, near_ns);
    double often_ns = ns_of(profile, "naps_often"), long_ns = ns_of(profile, "naps_long");
    CHECK_NEAR(often_ns + long_ns, ns, near_ns);
    CHECK_NEAR(long_ns, ns * 30 / 41, near_ns);
    scene_end(&scene);
}

TEST(the_note_says_how_waits_were_measured) {
    struct scene scene;
    scene_start(&scene);
    const struct engine_cpu_spec spec = {
        .frequency_hz = 200, .event = SONDE_WALL, .duration_ms = 100};
    engine_capture_release(begin(&scene, spec));
    collect_wait_end(&scene.collected);
    const char *note = collect_comment(scene.collected.profiles[0], "clock note: ");
    printf("  %s\n", note);
    CHECK(has_bpf ? !strstr(note, "waits") : strstr(note, "waits: by looks") != NULL);
    scene_end(&scene);
}

/* As while history records: somebody else's capture keeps the stream. */
TEST(captures_begin_after_the_last_one_of_off_cpu_time_has_ended) {
    struct scene scene;
    scene_start(&scene);
    struct scene other = {.engine = scene.engine, .pid = fork()};
    while (other.pid == 0)
        pause();
    collect_init(&other.collected);
    const struct engine_cpu_spec spec = {.frequency_hz = 19, .duration_ms = 60000};
    struct engine_capture *kept = begin(&other, spec);
    (void)capture(&scene, SONDE_OFF_CPU);
    sleep_ns(300 * MS); /* until nobody wants off-CPU time any more */
    collect_finish(&scene.collected);
    collect_init(&scene.collected);
    (void)capture(&scene, SONDE_ON_CPU);
    engine_capture_finish(kept);
    collect_wait_end(&other.collected);
    engine_capture_release(kept);
    collect_finish(&other.collected);
    kill(other.pid, SIGKILL);
    waitpid(other.pid, NULL, 0);
    scene_end(&scene);
}

TEST(an_off_cpu_capture_of_a_process_that_ends_has_what_was_seen) {
    struct scene scene;
    scene_start(&scene);
    const struct engine_cpu_spec spec = {
        .frequency_hz = 200, .event = SONDE_OFF_CPU, .duration_ms = 60000, .progress_ms = 100};
    engine_capture_release(begin(&scene, spec));
    collect_wait_progress(&scene.collected, 4);
    kill(scene.pid, SIGKILL);
    waitpid(scene.pid, NULL, 0);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_OK);
    CHECK_INT(scene.collected.profile_count, ==, 1);
    print(scene.collected.profiles[0]);
    CHECK(ns_of(scene.collected.profiles[0], "naps_long") > 30.0 * MS);
    scene_end(&scene);
}

/* Four, and those of a sanitizer. */
static double threads_of(pid_t pid) {
    char path[64];
    struct stat info;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    CHECK_INT(stat(path, &info), ==, 0);
    return (double)info.st_nlink - 2;
}

TEST(wall_time_is_that_of_all_threads) {
    struct scene scene;
    scene_start(&scene);
    const struct sonde_profile *profile = capture(&scene, SONDE_WALL);
    double ns = (double)length_ns(&scene);
    print(profile);
    CHECK_STR(sonde_profile_type(profile, 1).type, "wall");
    double threads = threads_of(scene.pid);
    CHECK_INT(threads, >=, 4);
    CHECK_NEAR((double)sonde_profile_total(profile, 1), threads * ns, 0.3 * ns);
    scene_end(&scene);
}

TEST(threads_that_stay_blocked_are_in_every_window) {
    struct scene scene;
    scene_start(&scene);
    const struct engine_cpu_spec spec = {
        .frequency_hz = 200, .event = SONDE_OFF_CPU, .duration_ms = 60000, .window_ms = 550};
    struct engine_capture *running = begin(&scene, spec);
    collect_wait_profiles(&scene.collected, 2);
    engine_capture_cancel(running);
    engine_capture_release(running);
    collect_wait_end(&scene.collected);
    for (int i = 0; i < 2; i++) {
        print(scene.collected.profiles[i]);
        CHECK(ns_of(scene.collected.profiles[i], "sleeps_always") > 100.0 * MS);
    }
    scene_end(&scene);
}

/* Of a function, without those for a CPU. */
static int64_t contentions_in(const struct sonde_profile *profile, const char *function) {
    int64_t total = 0;
    for (size_t i = 0; i < sonde_profile_sample_count(profile); i++) {
        struct sonde_sample sample = sonde_profile_sample(profile, i);
        bool is_in = false, is_blocked = true;
        for (uint32_t k = 0; k < sample.location_count; k++) {
            const struct sonde_location *at = sonde_profile_location(profile, sample.locations[k]);
            const char *name =
                at->line_count
                    ? sonde_profile_text(profile,
                                         sonde_profile_function(profile, at->lines->function)->name)
                    : "";
            is_in |= strcmp(name, function) == 0;
            is_blocked &= strcmp(name, "[waiting for a CPU]") != 0;
        }
        total += is_in && is_blocked ? sample.values[0] : 0;
    }
    return total;
}

TEST(waits_are_counted_once_each) {
    struct scene scene;
    if (!has_bpf)
        check_skip("looks estimate how many waits there were");
    scene_start(&scene);
    const struct engine_cpu_spec spec = {.frequency_hz = 200,
                                         .event = SONDE_OFF_CPU,
                                         .duration_ms = 60000,
                                         .progress_ms = 100,
                                         .counts_waits = true};
    struct engine_capture *running = begin(&scene, spec);
    collect_wait_progress(&scene.collected, 2);
    ready[2] = 6;
    while (ready[2] > 0)
        sleep_ns(MS);
    collect_wait_progress(&scene.collected, 12); /* the others were reported in part meanwhile */
    engine_capture_finish(running);
    engine_capture_release(running);
    collect_wait_end(&scene.collected);
    const struct sonde_profile *profile = scene.collected.profiles[0];
    CHECK_STR(sonde_profile_type(profile, 0).type, "contentions");
    CHECK_STR(sonde_profile_type(profile, 1).type, "delay");
    CHECK_INT(contentions_in(profile, "naps_on_order"), ==, 6);
    CHECK_INT(contentions_in(profile, "sleeps_always"), ==, 1);
    CHECK(sonde_profile_total(profile, 1) > 1000 * (int64_t)MS);
    scene_end(&scene);
}

TEST(a_child_that_starts_later_belongs_to_the_tree) {
    struct scene scene;
    scene_start(&scene);
    const struct engine_cpu_spec spec = {.frequency_hz = 200,
                                         .event = SONDE_OFF_CPU,
                                         .duration_ms = 60000,
                                         .progress_ms = 100,
                                         .target.all = true};
    struct engine_capture *running = begin(&scene, spec);
    collect_wait_progress(&scene.collected, 2);
    ready[1] = 1;
    collect_wait_progress(&scene.collected, 9);
    engine_capture_finish(running);
    engine_capture_release(running);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.profile_count, ==, 1);
    print(scene.collected.profiles[0]);
    CHECK(ns_of(scene.collected.profiles[0], "child_sleeps") > 100.0 * MS);
    CHECK(ns_of(scene.collected.profiles[0], "sleeps_always") > 400.0 * MS);
    scene_end(&scene);
}
