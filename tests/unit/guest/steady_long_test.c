/* SPDX-License-Identifier: Apache-2.0
 *
 * E3 in full: 10^6 samples at 10,000 Hz, while a thread checks errno, signal mask, vector registers
 * and red zone. Takes two minutes of CPU time, so it is run by hand. */
#include "tests/unit/guest/scene.h"

#include "tests/unit/check.h"

#include <stdio.h>

TEST(a_million_ticks_change_nothing) {
    struct scene scene;
    uint64_t samples = 0;
    while (samples < 1000000) {
        scene_begin(&scene, "steady", 20000);
        scene_capture(&scene, HZ(10000), BEST);
        struct line changed = scene_pump_long(&scene, 600);
        fake_stop(&scene.guest);
        CHECK_INT(changed.a, ==, 0);
        CHECK_INT(scene.guest.sample_count, >, 1000);
        samples += scene.guest.sample_count;
        printf("%lu samples, %lld rounds unchanged\n", (unsigned long)samples, changed.b);
        scene_end(&scene);
    }
}
