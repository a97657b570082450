/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/engine/scene.h"

__attribute__((noinline, used)) void burn_tree(void) {
    __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop");
}
__attribute__((noinline, used)) void burn_leaf(void) {
    __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop; nop");
}
__attribute__((noinline, used)) void burn_other(void) {
    __asm__ volatile("nop; nop; nop; nop; nop; nop; nop; nop; nop; nop");
}

void scene_init(struct scene *scene) {
    memset(scene, 0, sizeof *scene);
    place_make(&scene->place);
    scene->engine = place_engine(&scene->place);
    fake_attach(&scene->guest, scene->place.socket, "burner", 1);
    collect_init(&scene->collected);
}

void scene_finish(struct scene *scene) {
    engine_capture_release(scene->capture);
    fake_close(&scene->guest);
    engine_destroy(scene->engine);
    collect_finish(&scene->collected);
    place_remove(&scene->place);
}

void begin(struct scene *scene, const struct engine_cpu_spec *spec) {
    struct sonde_diag diag = {0};
    sonde_err err = engine_capture_cpu(scene->engine, spec, &collect_events, &scene->collected,
                                       &scene->capture, &diag);
    if (err)
        check_fail(__FILE__, __LINE__, "%s", diag.text);
}

sonde_guest_v1_CpuConfig start_clock(struct scene *scene) {
    sonde_guest_v1_CpuConfig config = fake_start(&scene->guest);
    wait_for_state(scene->engine, config.sequence);
    return config;
}

void push_many(struct scene *scene, uint32_t count, void (*leaf)(void), uint32_t tid) {
    const uint64_t pcs[] = PCS(leaf);
    for (uint32_t i = 0; i < count; i++) {
        if (i % 200 == 199)
            fake_wait_drained(&scene->guest);
        CHECK(fake_push_sample(&scene->guest, tid, 10 * MS, pcs, 2));
    }
}

void settle(struct scene *scene) {
    fake_wait_drained(&scene->guest);
}
