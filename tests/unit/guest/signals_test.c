/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest beside a program's own signals: it does not disturb them, and none of its signals comes
 * late. */
#include "tests/unit/guest/scene.h"

#include "tests/unit/check.h"
#include "tests/unit/temporary.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

/* E7. */
TEST(foreign_handlers_keep_working) {
    struct scene scene;
    const int times = 60;
    scene_begin(&scene, "foreign", times);
    scene_capture(&scene, HZ(999), BEST);
    struct line traps = scene_pump_line(&scene);
    struct line profs = scene_line(&scene), same = scene_line(&scene);
    fake_stop(&scene.guest);
    CHECK_INT(traps.a, ==, 4 * times); /* int3 and raise, in both halves */
    CHECK_INT(traps.b, ==, 4 * times);
    CHECK_INT(profs.a, ==, 2 * times);
    CHECK_INT(profs.b % (2 * times), ==, 0);
    CHECK_INT(profs.b, >, 0);
    CHECK_INT(same.a, ==, 4);
    CHECK_INT(scene.guest.sample_count, >, 50);
    scene_end(&scene);
}

TEST(foreign_handlers_keep_working_beside_the_timer) {
    struct scene scene;
    scene_begin(&scene, "foreign", 60);
    scene_capture(&scene, HZ(199), TIMER);
    struct line traps = scene_pump_line(&scene);
    struct line profs = scene_line(&scene);
    scene_line(&scene);
    fake_stop(&scene.guest);
    CHECK_INT(traps.a, ==, 240);
    CHECK_INT(profs.a, ==, 120);
    CHECK_INT(profs.b % 120, ==, 0);
    CHECK_INT(profs.b, >, 0);
    scene_end(&scene);
}

/* E11. */
TEST(waiting_calls_are_not_interrupted) {
    struct scene scene;
    scene_begin(&scene, "eintr", 1000);
    scene_capture(&scene, HZ(999), BEST);
    struct line interrupted = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_INT(interrupted.a, ==, 0);
    CHECK_INT(scene.guest.sample_count, >, 100);
    scene_end(&scene);
}

/* E3. */
TEST(errno_mask_vectors_and_red_zone_stay) {
    struct scene scene;
    scene_begin(&scene, "steady", 1000);
    scene_capture(&scene, HZ(10000), BEST);
    struct line changed = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_INT(changed.a, ==, 0);
    CHECK_INT(changed.b, >, 100);
    CHECK_INT(scene.guest.sample_count, >, 200);
    scene_end(&scene);
}

/* E6. */
TEST(ticks_fit_on_the_smallest_stacks) {
    struct scene scene;
    scene_begin(&scene, "small_stacks", 30);
    scene_capture(&scene, HZ(2000), BEST);
    struct line used = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_INT(used.b, ==, 0);
    CHECK_INT(scene.guest.sample_count, >, 100);
    scene_end(&scene);
}

/* E7. */
TEST(a_replaced_handler_is_noticed) {
    struct scene scene;
    scene_begin(&scene, "stolen", 1500);
    scene_capture(&scene, HZ(99), PERF);
    CHECK_STR(scene_pump_line(&scene).word, "stolen");
    while (strcmp(scene.guest.state.clock, "timer") != 0) /* the message may have arrived already */
        fake_pump_until(&scene.guest, &scene.guest.states, scene.guest.states + 1);
    CHECK(strstr(scene.guest.state.note, "SIGTRAP was taken"));
    size_t before = scene.guest.sample_count;
    struct line done = scene_pump_line(&scene);
    CHECK_INT(done.a, <, 100); /* ticks before the guest noticed: none, if it was quick */
    CHECK_INT(scene.guest.sample_count, >, before + 10);
    fake_stop(&scene.guest);
    scene_end(&scene);
}

/* Attaches to all threads, as a debugger does. */
static void seize(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    CHECK(tasks != NULL);
    for (struct dirent *task = readdir(tasks); task; task = readdir(tasks))
        if (task->d_name[0] != '.' && ptrace(PTRACE_SEIZE, atoi(task->d_name), 0, 0) != 0)
            check_skip("this machine lets no process trace another");
    closedir(tasks);
}

/* Reads records for 20 ms. Returns how often threads were stopped by signals, which they get. */
static int pump_traced(struct fake_guest *guest) {
    int status, stops = 0;
    fake_pump(guest, 20);
    for (pid_t tid = waitpid(-1, &status, WNOHANG | __WALL); tid > 0;
         tid = waitpid(-1, &status, WNOHANG | __WALL)) {
        CHECK(WIFSTOPPED(status));
        ptrace(PTRACE_CONT, tid, 0, WSTOPSIG(status));
        stops++;
    }
    return stops;
}

/* Detaches from all threads. */
static void let_go(pid_t pid) {
    char path[64];
    int status;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *tasks = opendir(path);
    CHECK(tasks != NULL);
    for (struct dirent *task = readdir(tasks); task; task = readdir(tasks)) {
        pid_t tid = atoi(task->d_name);
        if (tid == 0)
            continue;
        CHECK_INT(ptrace(PTRACE_INTERRUPT, tid, 0, 0), ==, 0);
        CHECK_INT(waitpid(tid, &status, __WALL), ==, tid);
        CHECK_INT(ptrace(PTRACE_DETACH, tid, 0, 0), ==, 0);
    }
    closedir(tasks);
}

static void seize_until_noted(struct scene *scene) {
    seize(scene->child.pid);
    while (!strstr(scene->guest.state.note, "a debugger was attached"))
        pump_traced(&scene->guest);
}

static void trace(sonde_guest_v1_ClockChoice clock) {
    struct scene scene;
    scene_begin(&scene, "steady", 4000);
    scene_capture(&scene, HZ(99), clock);
    seize_until_noted(&scene);
    while (pump_traced(&scene.guest) > 0) /* ticks that were on their way */
        continue;
    size_t before = scene.guest.sample_count;
    for (int i = 0; i < 25; i++)
        CHECK_INT(pump_traced(&scene.guest), ==, 0);
    CHECK_INT(scene.guest.sample_count, ==, before);
    CHECK(scene.guest.state.running);
    uint32_t states = scene.guest.states;
    let_go(scene.child.pid);
    fake_pump_until(&scene.guest, &scene.guest.states, states + 1);
    scene_pump_line(&scene);
    CHECK_INT(scene.guest.sample_count, >, before + 10);
    CHECK_INT(fake_unseen_sum(&scene.guest, 0, RING_UNSEEN_NO_CLOCK), >, 0);
    fake_stop(&scene.guest);
    scene_end(&scene);
}

TEST(a_debugger_meets_no_tick_of_perf) {
    trace(PERF);
}

TEST(a_debugger_meets_no_tick_of_the_timer) {
    trace(TIMER);
}

static void write_setting(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    CHECK(file && fputs(text, file) > 0);
    CHECK_INT(fclose(file), ==, 0);
}

/* In this process's own mount namespace, /proc has another file in place of the setting. */
static void cover_setting(char path[256]) {
    temporary_template(path, 256);
    int fd = mkstemp(path);
    CHECK(fd >= 0 && close(fd) == 0);
    write_setting(path, "2\n");
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount(path, "/proc/sys/kernel/perf_event_paranoid", NULL, MS_BIND, NULL) != 0)
        check_skip("this machine lets no process change its mounts");
}

TEST(a_change_of_perf_event_paranoid_is_noticed_during_a_capture) {
    struct scene scene;
    char path[256];
    if (getuid() != 0)
        check_skip("only root can give a child other settings");
    cover_setting(path);
    scene_begin(&scene, "steady", 4000);
    scene_capture(&scene, HZ(99), BEST);
    char clock[sizeof scene.guest.state.clock];
    memcpy(clock, scene.guest.state.clock, sizeof clock);
    seize_until_noted(&scene);
    let_go(scene.child.pid);
    write_setting(path, "1\n");
    while (!strstr(scene.guest.state.note, "kernel.perf_event_paranoid was changed"))
        fake_pump_until(&scene.guest, &scene.guest.states, scene.guest.states + 1);
    CHECK_STR(scene.guest.state.clock, clock); /* this kernel still allows the same */
    CHECK(strstr(scene.guest.state.note, "a debugger was attached")); /* another clock, one note */
    size_t before = scene.guest.sample_count;
    scene_pump_line(&scene);
    CHECK_INT(scene.guest.sample_count, >, before);
    fake_stop(&scene.guest);
    scene_end(&scene);
}

static void stop_with_pending_tick(sonde_guest_v1_ClockChoice clock) {
    struct scene scene;
    scene_begin(&scene, "late", 0);
    scene_capture(&scene, HZ(499), clock);
    CHECK_STR(scene_pump_line(&scene).word, "pending");
    fake_stop(&scene.guest);
    fake_poke(&scene.child);
    CHECK_STR(scene_pump_line(&scene).word, "alive");
    scene_end(&scene);
}

/* E8. */
TEST(a_pending_tick_of_perf_does_nothing_after_the_end) {
    stop_with_pending_tick(PERF);
}

TEST(a_pending_tick_of_the_timer_does_nothing_after_the_end) {
    stop_with_pending_tick(TIMER);
}

TEST(a_pending_tick_of_the_process_clock_does_nothing_after_the_end) {
    stop_with_pending_tick(ITIMER);
}

/* E20. */
TEST(the_caller_of_a_hot_leaf_is_there) {
    struct scene scene;
    struct line leaves = scene_begin(&scene, "leaf", 500), callers = scene_line(&scene);
    scene_capture(&scene, HZ(999), BEST);
    scene_pump_line(&scene);
    fake_stop(&scene.guest);
    size_t leaf = 0, with_caller = 0;
    for (size_t i = 0; i < scene.guest.sample_count; i++) {
        const struct fake_sample *sample = &scene.guest.samples[i];
        if ((long long)sample->pcs[0] < leaves.a || (long long)sample->pcs[0] >= leaves.b)
            continue;
        leaf++;
        with_caller += sample->depth > 1 && (long long)sample->pcs[1] >= callers.a &&
                       (long long)sample->pcs[1] <= callers.b && sample->end == RING_END_ROOT;
    }
    CHECK_INT(leaf, >, 100);
    CHECK_INT(with_caller * 100, >=, leaf * 99);
    scene_end(&scene);
}

/* E26. */
TEST(a_deep_stack_keeps_leaf_and_root) {
    struct scene scene;
    scene_begin(&scene, "deep", 20000);
    scene_capture(&scene, HZ(499), BEST);
    scene_pump_line(&scene);
    fake_stop(&scene.guest);
    size_t cut = 0;
    uint64_t root = 0;
    for (size_t i = 0; i < scene.guest.sample_count; i++)
        if (scene.guest.samples[i].end == RING_END_DEPTH) {
            CHECK_INT(scene.guest.samples[i].depth, ==, RING_MAX_DEPTH);
            CHECK(root == 0 || root == scene.guest.samples[i].root);
            root = scene.guest.samples[i].root;
            cut++;
        }
    CHECK_INT(cut, >, 20);
    scene_end(&scene);
}

/* The stack is not registered: the kernel is asked which pages can be read, and the walk ends after
 * them. */
TEST(an_unknown_stack_is_walked_as_far_as_it_goes) {
    struct scene scene;
    struct line ready = scene_begin(&scene, "coroutine", 0);
    scene_capture(&scene, HZ(499), BEST);
    scene_pump_line(&scene);
    fake_stop(&scene.guest);
    uint64_t in_coroutine = fake_weight_in(&scene.guest, (uint64_t)ready.a, (uint64_t)ready.a + 64);
    CHECK_INT(in_coroutine * 10, >, fake_weight(&scene.guest, 0) * 8);
    scene_end(&scene);
}

/* E5. 200 KiB of stack are between the sample and the coroutine's first function. */
static double share_with_root(int is_registered) {
    struct scene scene;
    struct line ready = scene_begin(&scene, "registered", is_registered);
    scene_capture(&scene, HZ(499), BEST);
    scene_pump_line(&scene);
    fake_stop(&scene.guest);
    uint64_t rooted = fake_weight_in(&scene.guest, (uint64_t)ready.a, (uint64_t)ready.a + 64);
    double share = (double)rooted / (double)fake_weight(&scene.guest, 0);
    scene_end(&scene);
    return share;
}

TEST(a_registered_stack_is_walked_to_its_end_and_an_unknown_one_as_far_as_is_safe) {
    CHECK_NEAR(share_with_root(1), 1.0, 0.2);
    CHECK_NEAR(share_with_root(0), 0.0, 0.2);
}

/* E6. */
TEST(handlers_run_on_the_threads_alternate_stack) {
    struct scene scene;
    scene_begin(&scene, "altstack", 0);
    scene_capture(&scene, HZ(499), BEST);
    struct line touched = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_INT(touched.a, >, 512);
    CHECK_INT(touched.a, <,
              16384); /* the kernel's frame with all vector registers, and 2 KiB of ours */
    scene_end(&scene);
}

/* E5. */
TEST(a_handler_on_an_alternate_stack_is_walked_through) {
    struct scene scene;
    struct line ready = scene_begin(&scene, "sigstack", 0);
    scene_capture(&scene, HZ(499), BEST);
    scene_pump_line(&scene);
    fake_stop(&scene.guest);
    uint64_t all = fake_weight(&scene.guest, 0);
    uint64_t handler = fake_weight_in(&scene.guest, (uint64_t)ready.a, (uint64_t)ready.a + 64);
    uint64_t below = fake_weight_in(&scene.guest, (uint64_t)ready.b, (uint64_t)ready.b + 512);
    CHECK_INT(handler * 10, >, all * 9);
    CHECK_INT(below * 10, >, all * 9);
    scene_end(&scene);
}
