/* SPDX-License-Identifier: Apache-2.0
 *
 * A million distinct frames. In a program of its own, because it takes seconds. */
#include "tests/unit/engine/scene.h"

/* With more distinct frames than one stack table holds, the capture goes on with an empty one. */
TEST(a_full_stack_table_is_renewed_and_loses_nothing) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100, .no_symbols = true};
    uint64_t pcs[RING_MAX_DEPTH], next = 0x1000;
    const uint32_t samples = (1u << 20) / RING_MAX_DEPTH + 500;
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    for (uint32_t i = 0; i < samples; i++) {
        for (uint32_t k = 0; k < RING_MAX_DEPTH; k++)
            pcs[k] = next++;
        if (i % 50 == 49)
            fake_wait_drained(&scene.guest);
        CHECK(fake_push_sample(&scene.guest, 1 + i % 2, 10 * MS, pcs, RING_MAX_DEPTH));
    }
    settle(&scene);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK_INT(scene.collected.err, ==, SONDE_OK);
    CHECK_INT(scene.collected.metadata[0].dropped, ==, 0);
    CHECK_INT(scene.collected.metadata[0].samples, ==, samples);
    CHECK_INT(sonde_profile_sample_count(scene.collected.profiles[0]), ==, samples);
    scene_finish(&scene);
}
