/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes that sleep, and an engine that looks for them. */
#ifndef SONDE_TESTS_UNIT_ENGINE_HOST_SLEEPERS_H
#define SONDE_TESTS_UNIT_ENGINE_HOST_SLEEPERS_H

#include "service/engine/host/host.h"
#include "service/engine/targets/find_target.h"
#include "tests/unit/check.h"
#include "tests/unit/engine/collect.h"
#include "tests/unit/engine/fake_guest.h"

#define USER   12345u
#define NOBODY 4194304 /* no process has this pid */

/* A process that sleeps, called NAME (NULL = as the test), of USER (0 = ours). */
pid_t start(const char *name, uid_t user);
void end(pid_t pid);
void require_root(void);

struct scene {
    struct place place;
    struct engine *engine;
    struct sonde_diag diag;
    struct engine_target found;
    char name[32]; /* that no other process has */
};

void scene_init(struct scene *scene);
void scene_finish(struct scene *scene);
/* engine_find into scene->found. */
sonde_err find(struct scene *scene, struct engine_selector selector);
/* Whether the last refusal contains the text. */
bool says(const struct scene *scene, const char *text);
/* The host target, retained. */
struct target *get(struct scene *scene, struct engine_selector selector);

#endif
