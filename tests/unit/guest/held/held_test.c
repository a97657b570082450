/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads that a tick would harm: their alternate signal stack has no room for it, or a seccomp
 * filter kills for what it calls. They get none, their time is reported, and the capture says why.
 */
#include "tests/unit/guest/scene.h"

#include "tests/unit/check.h"

#include <string.h>

static uint64_t no_stack_drops(const struct scene *scene) {
    return *ring_drops(scene->guest.rings, RING_DROP_NO_STACK);
}

/* The thread disables the stack later, and is sampled from then on. */
TEST(a_small_alternate_stack_gets_no_ticks) {
    struct scene scene;
    scene_begin(&scene, "small_altstack", 0);
    scene_capture(&scene, HZ(499), BEST);
    while (!strstr(scene.guest.state.note,
                   "1 thread not sampled: the alternate signal stack is too small"))
        fake_pump_until(&scene.guest, &scene.guest.states, scene.guest.states + 1);
    struct line touched = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    uint32_t tid = (uint32_t)touched.a;
    CHECK_INT(touched.b, ==, 0);
    CHECK_INT(fake_unseen_sum(&scene.guest, tid, RING_UNSEEN_NO_CLOCK), >, 600000000);
    CHECK_INT(fake_weight(&scene.guest, tid), >, 400000000);
    CHECK_INT(no_stack_drops(&scene), ==, 0);
    scene_end(&scene);
}

/* The guest does not know of the stack. Its handler sees that too little is left, and returns. */
TEST(a_small_alternate_stack_that_is_set_past_libc_is_not_overrun) {
    struct scene scene;
    scene_begin(&scene, "small_altstack", 1);
    scene_capture(&scene, HZ(499), BEST);
    struct line touched = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    uint64_t all = fake_weight(&scene.guest, (uint32_t)touched.a);
    CHECK_INT(touched.b, ==, 0);
    CHECK_INT(no_stack_drops(&scene), >, 20); /* at 100 Hz, the slowest kernel's tick, 80 */
    CHECK_INT(all, >, 400000000);             /* after it is disabled */
    CHECK_INT(all, <, 1200000000);
    scene_end(&scene);
}

/* Where a CPU has AMX, it has room for the frame of a thread that uses AMX, and so for the frame
 * and the handler of one that does not. */
TEST(the_smallest_stack_of_the_kernel_gets_ticks) {
    struct scene scene;
    scene_begin(&scene, "smallest_altstack", 0);
    scene_capture(&scene, HZ(499), BEST);
    struct line touched = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_INT(touched.b, ==, 0);
    CHECK_INT(fake_weight(&scene.guest, (uint32_t)touched.a), >, 400000000);
    CHECK_INT(no_stack_drops(&scene), ==, 0);
    scene_end(&scene);
}

TEST(a_thread_with_tiles_on_the_smallest_stack_is_not_overrun) {
    struct scene scene;
    struct line began = scene_begin(&scene, "smallest_altstack", 1);
    if (strcmp(began.word, "refused") == 0)
        check_skip("this CPU has no AMX");
    scene_capture(&scene, HZ(499), BEST);
    struct line touched = scene_pump_line(&scene);
    fake_stop(&scene.guest);
    CHECK_INT(touched.b, ==, 0);
    CHECK_INT(no_stack_drops(&scene), >, 20);
    scene_end(&scene);
}

static void check_filtered(int how) {
    struct scene scene;
    scene_begin(&scene, "filtered", how);
    scene_capture(&scene, HZ(499), BEST);
    CHECK_STR(scene_pump_line(&scene).word, "burned");
    fake_stop(&scene.guest);
    CHECK(!scene.guest.gone);
    scene_end(&scene);
}

TEST(a_strict_thread_lives) {
    check_filtered(1);
}

TEST(a_thread_whose_filter_kills_lives) {
    check_filtered(2);
}

/* The guest does not read the second filter, since that would take system calls. */
TEST(a_thread_that_adds_a_filter_to_a_killing_one_lives) {
    check_filtered(5);
}

TEST(a_thread_whose_filter_kills_is_named) {
    struct scene scene;
    scene_begin(&scene, "filtered", 4);
    scene_capture(&scene, HZ(499), BEST);
    while (!strstr(scene.guest.state.note, "a seccomp filter may kill for the guest's calls"))
        fake_pump_until(&scene.guest, &scene.guest.states, scene.guest.states + 1);
    fake_poke(&scene.child);
    CHECK_STR(scene_pump_line(&scene).word, "burned");
    fake_stop(&scene.guest);
    scene_end(&scene);
}

TEST(a_thread_whose_filter_refuses_is_sampled) {
    struct scene scene;
    scene_begin(&scene, "filtered", 3);
    scene_capture(&scene, HZ(499), BEST);
    CHECK_STR(scene_pump_line(&scene).word, "burned");
    fake_stop(&scene.guest);
    CHECK_INT(fake_weight(&scene.guest, 0), >, 600000000); /* 200 ms are before the filter */
    CHECK(!strstr(scene.guest.state.note, "seccomp"));
    scene_end(&scene);
}

TEST(the_guest_leaves_before_a_killing_filter_for_all_threads) {
    struct scene scene;
    scene_begin(&scene, "filtered_process", 0);
    scene_capture(&scene, HZ(499), BEST);
    struct line survived = scene_pump_line(&scene);
    CHECK_STR(survived.word, "survived");
    CHECK_INT(survived.a, ==, 0); /* the child's status */
    fake_pump(&scene.guest, 100);
    CHECK(scene.guest.gone);
    scene_end(&scene);
}
