/* SPDX-License-Identifier: Apache-2.0
 *
 * An engine, a fake guest and one capture. The stacks consist of addresses in the functions below,
 * which are never called, so that names are real. */
#ifndef SONDE_TESTS_UNIT_ENGINE_SCENE_H
#define SONDE_TESTS_UNIT_ENGINE_SCENE_H

#include "tests/unit/check.h"
#include "tests/unit/engine/collect.h"
#include "tests/unit/engine/fake_guest.h"

#define MS 1000000ull

void burn_tree(void);
void burn_leaf(void);
void burn_other(void);

/* As the guest records a stack: an exact pc in the leaf, then return addresses. */
#define PCS(leaf) \
    { (uint64_t)(uintptr_t)(leaf) + 2, (uint64_t)(uintptr_t)burn_tree + 4 }

struct scene {
    struct place place;
    struct engine *engine;
    struct fake_guest guest;
    struct collected collected;
    struct engine_capture *capture;
};

void scene_init(struct scene *scene);
void scene_finish(struct scene *scene);
/* Starts the capture. */
void begin(struct scene *scene, const struct engine_cpu_spec *spec);
/* Starts the guest's clock and waits until the captures count. */
sonde_guest_v1_CpuConfig start_clock(struct scene *scene);
/* Writes samples of 10 ms each. */
void push_many(struct scene *scene, uint32_t count, void (*leaf)(void), uint32_t tid);
/* Waits until the engine has read all records. */
void settle(struct scene *scene);

#endif
