/* SPDX-License-Identifier: Apache-2.0
 *
 * The guest during a process's life: start, fork, exec, refused clocks, dropped privileges,
 * restarts of sonded, and libraries that are loaded and unloaded. */
#include "tests/unit/guest/scene.h"

#include "tests/unit/check.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int count_tasks(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *folder = opendir(path);
    int count = 0;
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder))
        count += entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return count;
}

/* Voluntary context switches of the guest's thread. */
static long switches(pid_t pid) {
    char command[256], text[32] = "";
    snprintf(
        command, sizeof command,
        "cat /proc/%d/task/*/status | awk '/^Name/ {n=$2} /^voluntary/ && n==\"sonde\" {print $2}'",
        (int)pid);
    FILE *out = popen(command, "r");
    if (fgets(text, sizeof text, out) == NULL)
        text[0] = 0;
    pclose(out);
    return atol(text);
}

TEST(hello_identifies_the_process) {
    struct scene scene;
    setenv("SONDE_NAME", "the-subject", 1);
    scene_begin(&scene, "idle", 0);
    unsetenv("SONDE_NAME");
    const sonde_guest_v1_Hello *hello = &scene.guest.hello;
    CHECK_INT(hello->protocol, ==, 1);
    CHECK_INT(hello->pid, ==, scene.child.pid);
    CHECK_STR(hello->name, "the-subject");
    CHECK(strstr(hello->executable, "/subject"));
    CHECK_INT(hello->start_ticks, >, 0);
    CHECK_INT(hello->page_size, ==, 4096);
    CHECK_INT(hello->cpus, >, 0);
    CHECK_INT(count_tasks(scene.child.pid), ==, 2);
    fake_poke(&scene.child);
    scene_line(&scene);
    scene_end(&scene);
}

TEST(a_connected_guest_sleeps) {
    struct scene scene;
    scene_begin(&scene, "idle", 0);
    fake_pump(&scene.guest, 200);
    long before = switches(scene.child.pid);
    CHECK_INT(before, >, 0);
    fake_pump(&scene.guest, 1500);
    CHECK_INT(switches(scene.child.pid) - before, ==, 0);
    fake_poke(&scene.child);
    scene_line(&scene);
    scene_end(&scene);
}

TEST(after_a_capture_the_guest_sleeps_again) {
    struct scene scene;
    scene_begin(&scene, "shares", 100);
    scene_line(&scene), scene_line(&scene);
    scene_capture(&scene, HZ(999), BEST);
    scene_pump_line(&scene);
    fake_stop(&scene.guest);
    fake_pump(&scene.guest, 500);
    long before = switches(scene.child.pid);
    fake_pump(&scene.guest, 1000);
    CHECK_INT(switches(scene.child.pid) - before, ==, 0);
    scene_end(&scene);
}

TEST(short_lived_programs_are_not_seen_and_end_well) {
    struct fake fake;
    struct fake_guest guest;
    fake_open(&fake);
    for (int i = 0; i < 60; i++) {
        char *const argv[] = {"tests/unit/guest/subject/subject", "plain", "0", NULL};
        struct fake_child child;
        fake_spawn(&fake, argv, &child);
        CHECK_INT(fake_wait(&child), ==, 0);
    }
    int seen = 0;
    while (fake_accept(&fake, &guest, 50)) {
        fake_release(&guest);
        seen++;
    }
    CHECK_INT(seen, <, 20); /* on a busy machine some live long enough to connect */
    fake_close(&fake);
}

/* E10. */
TEST(forks_spawns_and_vforks_work) {
    struct scene scene;
    scene_begin(&scene, "forks", 60);
    scene_capture(&scene, HZ(999), BEST);
    struct line bad = scene_pump_line(&scene);
    CHECK_INT(bad.a, ==, 0);
    fake_stop(&scene.guest);
    for (size_t i = 0; i < scene.guest.sample_count;
         i++) /* none has counted the time of another process */
        CHECK(scene.guest.samples[i].weight_ns < 100000000);
    size_t samples = scene.guest.sample_count;
    CHECK_INT(samples, >, 10);
    scene_end(&scene);
}

/* E10. */
TEST(a_forked_child_is_a_target_of_its_own) {
    struct scene scene;
    struct fake_guest child;
    scene_begin(&scene, "children", 0);
    scene_capture(&scene, HZ(499), BEST);
    struct line forked = scene_pump_line(&scene);
    fake_accept_pid(&scene.fake, &child, (pid_t)forked.a);
    CHECK(memcmp(child.hello.uuid, scene.guest.hello.uuid, 16) != 0);
    fake_configure(&child, HZ(499), BEST);
    CHECK(child.state.running);
    fake_poke(&scene.child);
    for (int i = 0; i < 100 && child.sample_count <= 20; i++) /* of about 50 */
        fake_pump(&child, 100);
    CHECK_STR(scene_line(&scene).word, "child");
    CHECK_INT(child.sample_count, >, 20);
    for (size_t i = 0; i < child.sample_count; i++)
        CHECK_INT(child.samples[i].tid, ==, forked.a);
    for (size_t i = 0; i < scene.guest.sample_count; i++)
        CHECK_INT(scene.guest.samples[i].tid, !=, forked.a);
    fake_poke(&scene.child);
    fake_release(&child);
    CHECK_STR(scene_pump_line(&scene).word, "ended");
    fake_stop(&scene.guest);
    scene_end(&scene);
}

/* E8, E10. */
TEST(a_program_started_by_exec_inherits_nothing) {
    struct scene scene;
    scene_begin(&scene, "exec", 0);
    scene_capture(&scene, HZ(2000), BEST);
    struct line before = scene_pump_line(&scene), open = scene_pump_line(&scene);
    CHECK_INT(before.a, >=, 4); /* wake-up, socket, rings, one clock */
    CHECK_STR(open.word, "open");
    CHECK_INT(open.a, ==, 0);
    fake_pump(&scene.guest, 100);
    CHECK(scene.guest.gone);
    scene_end(&scene);
}

static void check_refused(int what, const char *clock, const char *word, double tolerance) {
    struct scene scene;
    scene_begin(&scene, "refused", what);
    scene_capture(&scene, HZ(99), BEST);
    CHECK_STR(scene.guest.state.clock, clock);
    CHECK(strstr(scene.guest.state.note, word));
    struct line used = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_NEAR((double)fake_weight(&scene.guest, 0) / (double)used.a, 1.0, tolerance);
    scene_end(&scene);
}

/* E12. */
TEST(without_perf_it_falls_back_to_timers) {
    check_refused(1, "timer", "perf refused: EPERM", 0.05);
}

TEST(without_timers_it_falls_back_to_the_process_clock) {
    check_refused(2, "itimer", "timer_create refused: EPERM", 0.10);
}

TEST(e12_a_seccomp_filter_that_kills_for_perf_does_not_kill_the_target) {
    check_refused(3, "timer", "perf refused: a seccomp filter kills for perf_event_open", 0.05);
}

static void check_drop(int past_libc) {
    struct scene scene;
    if (geteuid() != 0)
        check_skip("only root has privileges to give up");
    scene_begin(&scene, "drops", past_libc);
    scene_capture(&scene, HZ(999), BEST);
    struct line dropped = scene_pump_line(&scene);
    CHECK_STR(dropped.word, "dropped");
    CHECK_INT(dropped.a, ==, 0);
    CHECK_INT(dropped.b, ==, 0);
    uint64_t before = fake_weight(&scene.guest, 0);
    CHECK_STR(scene_pump_line(&scene).word, "worked");
    CHECK_INT(fake_weight(&scene.guest, 0) - before, >, 300000000); /* the capture continues */
    fake_stop(&scene.guest);
    CHECK(!scene.guest.gone);
    fake_poke(&scene.child);
    CHECK_INT(scene_line(&scene).a, ==, 0); /* all threads have the same capabilities */
    scene_end(&scene);
}

TEST(a_server_that_drops_privileges_keeps_the_others_and_its_capture) {
    check_drop(0);
}

TEST(a_server_that_drops_privileges_without_libc_keeps_its_capture) {
    check_drop(1);
}

/* The threads of the first capture are created in the chroot before it starts, those of the second
 * after. */
TEST(a_server_in_a_chroot_is_sampled_whole) {
    struct scene scene;
    if (geteuid() != 0)
        check_skip("only root may chroot");
    scene_begin(&scene, "chroot", 3);
    fake_poke(&scene.child);
    struct line entered = scene_line(&scene);
    CHECK_INT(entered.a, ==, 0);
    CHECK_INT(entered.b, ==, -1); /* no /proc there */
    fake_configure(&scene.guest, HZ(999), BEST);
    CHECK(scene.guest.state.running);
    CHECK_STR(scene_pump_line(&scene).word, "worked");
    CHECK_INT(fake_weight(&scene.guest, 0), >, 400000000); /* of 900 ms, some of which were over */
    uint64_t before = fake_weight(&scene.guest, 0);
    fake_poke(&scene.child);
    CHECK_STR(scene_pump_line(&scene).word, "again");
    fake_stop(&scene.guest);
    CHECK_NEAR((double)(fake_weight(&scene.guest, 0) - before), 600e6, 60e6);
    scene_end(&scene);
}

TEST(a_clock_that_was_asked_for_and_is_refused_is_an_error) {
    struct scene scene;
    scene_begin(&scene, "refused", 2);
    fake_configure(&scene.guest, HZ(99), PERF);
    CHECK(!scene.guest.state.running);
    CHECK_INT(scene.guest.state.os_error, !=, 0);
    fake_configure(&scene.guest, HZ(99), TIMER);
    CHECK(!scene.guest.state.running);
    fake_poke(&scene.child);
    scene_line(&scene);
    scene_end(&scene);
}

TEST(labels_and_names_travel_with_the_samples) {
    struct scene scene;
    scene_begin(&scene, "labels", 0);
    scene_capture(&scene, HZ(499), BEST);
    struct line tid = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    uint32_t label = 0, renamed = 0, plain = 0, with_request = 0;
    for (size_t i = 0; i < scene.guest.thread_count; i++) {
        const struct ring_thread *thread = &scene.guest.threads[i];
        if (thread->record.tid != tid.a)
            continue;
        if (thread->label_len == 10 && memcmp(thread->text, "compaction", 10) == 0)
            label = thread->label;
        renamed += strcmp(thread->name, "renamed") == 0;
    }
    CHECK_INT(label, >, 0);
    CHECK_INT(renamed, >, 0);
    for (size_t i = 0; i < scene.guest.sample_count; i++) {
        const struct fake_sample *sample = &scene.guest.samples[i];
        if (sample->tid != tid.a)
            continue;
        with_request += sample->label == label && sample->request == 4711;
        plain += sample->label == 0 && sample->request == 0;
    }
    CHECK_INT(with_request, >, 50);
    CHECK_INT(plain, >, 50);
    CHECK_INT(scene.guest.labels_told, ==, 1);
    scene_end(&scene);
}

TEST(a_program_can_stop_and_start_the_guest) {
    struct scene scene;
    struct line ready = scene_begin(&scene, "embedded", 0);
    CHECK_INT(ready.a, ==, 1); /* it is preloaded and runs already */
    scene_capture(&scene, HZ(499), BEST);
    struct line again = scene_pump_line(&scene);
    CHECK_INT(again.a, ==, 1);
    CHECK_INT(again.b, ==, 0);
    CHECK(scene.guest.gone);
    struct fake_guest second;
    fake_accept_pid(&scene.fake, &second, scene.child.pid);
    CHECK_STR(second.hello.name, "again");
    CHECK(memcmp(second.hello.uuid, scene.guest.hello.uuid, 16) != 0);
    fake_release(&second);
    scene_end(&scene);
}

/* sonded dies during a capture, and a new one binds the same path. */
TEST(a_guest_connects_to_a_restarted_sonded) {
    struct scene scene;
    scene_begin(&scene, "shares", 1500);
    scene_line(&scene), scene_line(&scene);
    scene_capture(&scene, HZ(499), BEST);
    fake_pump(&scene.guest, 200);
    fake_release(&scene.guest);
    fake_rebind(&scene.fake, 300);
    fake_accept_pid(&scene.fake, &scene.guest, scene.child.pid);
    fake_configure(&scene.guest, HZ(499), BEST);
    CHECK(scene.guest.state.running);
    for (int i = 0; i < 10 && scene.guest.sample_count <= 20; i++)
        fake_pump(&scene.guest, 200);
    CHECK_INT(scene.guest.rings_seen, ==, 1);
    CHECK_INT(scene.guest.sample_count, >, 20);
    scene_pump_line(&scene);
    fake_stop(&scene.guest);
    scene_end(&scene);
}

/* A server that becomes a daemon closes all descriptors except the guest's. */
TEST(a_program_that_closes_everything_does_not_close_ours) {
    for (int kind = 0; kind < 3; kind++) {
        struct scene scene;
        scene_begin(&scene, "closer", kind);
        fake_poke(&scene.child);
        CHECK_INT(scene_line(&scene).a, ==, 0);
        scene_capture(&scene, HZ(499), BEST);
        struct line done = scene_pump_line(&scene);
        CHECK_INT(done.a, ==, 0);
        CHECK_INT(done.b, ==, 0);
        CHECK_INT(scene.guest.sample_count, >, 20);
        fake_stop(&scene.guest);
        scene_end(&scene);
    }
}

static void accept_again(struct scene *scene) {
    fake_release(&scene->guest);
    fake_accept_pid(&scene->fake, &scene->guest, scene->child.pid);
}

/* Raw system calls can close the guest's descriptors. The guest then does not touch the program's
 * files, and connects again. */
TEST(descriptors_closed_without_libc_are_opened_again) {
    struct scene scene;
    scene_begin(&scene, "closer", 3);
    fake_poke(&scene.child);
    CHECK_INT(scene_line(&scene).a, ==, 0);
    accept_again(&scene);
    scene_capture(&scene, HZ(499), BEST);
    struct line done = scene_pump_line(&scene);
    CHECK_INT(done.a, ==, 0);
    CHECK_INT(done.b, ==, 0);
    CHECK_INT(scene.guest.sample_count, >, 20);
    fake_stop(&scene.guest);
    scene_end(&scene);
}

TEST(descriptors_closed_during_a_capture_are_opened_again) {
    struct scene scene;
    scene_begin(&scene, "closer", 3);
    scene_capture(&scene, HZ(499), BEST);
    CHECK_STR(scene_pump_line(&scene).word, "closed");
    accept_again(&scene);
    scene_capture(&scene, HZ(499), BEST);
    struct line done = scene_pump_line(&scene);
    CHECK_INT(done.a, ==, 0);
    CHECK_INT(done.b, ==, 0);
    CHECK_INT(scene.guest.sample_count, >, 20);
    fake_stop(&scene.guest);
    scene_end(&scene);
}

TEST(loading_and_unloading_libraries_makes_new_generations) {
    struct scene scene;
    scene_begin(&scene, "loader", 8);
    scene_capture(&scene, HZ(499), BEST);
    struct line bad = scene_pump_line(&scene);
    CHECK_INT(bad.a, ==, 0);
    fake_stop(&scene.guest);
    CHECK_INT(scene.guest.generations, >, 3);
    uint64_t rooted = 0;
    for (size_t i = 0; i < scene.guest.sample_count; i++)
        rooted += scene.guest.samples[i].end == RING_END_ROOT;
    CHECK_INT(rooted * 2, >, scene.guest.sample_count);
    scene_end(&scene);
}

/* E17. */
TEST(two_thousand_threads_are_sampled_at_once) {
    struct scene scene;
    struct line ready = scene_begin(&scene, "idle", 2000);
    CHECK_INT(ready.a, ==, 2000);
    scene_capture(&scene, HZ(99), BEST);
    CHECK_INT(scene.guest.state.threads, >=, 2001);
    scene_pump_line(&scene);
    fake_stop(&scene.guest);
    scene_end(&scene);
}
