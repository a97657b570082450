/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets without a guest beside those that have one, and how they end. No clock is needed. */
#include "tests/unit/engine/host/sleepers.h"

#include <stdlib.h>
#include <unistd.h>

/* --- beside attached processes ---------------------------------------------------------------- */

static void on_target(void *context, bool attached, const struct engine_target *target) {
    uint32_t *seen = context;
    *seen += target != NULL;
}

TEST(an_attached_process_wins_and_host_targets_are_not_listed) {
    struct scene scene;
    struct fake_guest guest;
    struct engine_watch *watch;
    uint32_t seen = 0;
    size_t count;
    scene_init(&scene);
    pid_t pid = start(scene.name, 0);
    target_release(get(&scene, (struct engine_selector){.pid = pid}));
    CHECK_INT(find(&scene, (struct engine_selector){0}), ==, SONDE_TARGET_AMBIGUOUS);
    CHECK(engine_targets(scene.engine, &count) == NULL);
    fake_attach(&guest, scene.place.socket, scene.name, 1);
    struct target *own = get(&scene, (struct engine_selector){.pid = getpid()});
    CHECK_INT(find(&scene, (struct engine_selector){0}), ==, SONDE_OK);
    CHECK(!scene.found.is_unattached && scene.found.pid == getpid());
    CHECK_INT(find(&scene, (struct engine_selector){.name = scene.name}), ==, SONDE_OK);
    CHECK_INT(scene.found.pid, ==, getpid());
    CHECK_INT(find(&scene, (struct engine_selector){.pid = getpid()}), ==, SONDE_OK);
    CHECK(!scene.found.is_unattached);
    CHECK(strcmp(scene.found.uuid, own->info.uuid) != 0);
    struct target *twin = find_twin(own);
    CHECK(twin && !twin->host && find_twin(twin) == own);
    target_release(own);
    target_release(own);
    target_release(twin);
    struct engine_target *list = engine_targets(scene.engine, &count);
    CHECK_INT(count, ==, 1);
    free(list);
    struct engine_counters counters;
    engine_counters(scene.engine, &counters);
    CHECK_INT(counters.targets, ==, 1);
    CHECK_INT(engine_watch(scene.engine, on_target, &seen, &watch), ==, SONDE_OK);
    end(pid);
    fake_close(&guest);
    for (int i = 0; i < 30000 && counters.targets > 0; i++) {
        usleep(1000);
        engine_counters(scene.engine, &counters);
    }
    CHECK_INT(counters.targets, ==, 0);
    engine_unwatch(scene.engine, watch);
    CHECK_INT(seen, <=, 2); /* the guest has come and gone */
    scene_finish(&scene);
}

TEST(all_processes_are_listed_with_the_attached_ones) {
    struct scene scene;
    struct fake_guest guest;
    size_t count, attached = 0, own = 0, sleeper = 0;
    scene_init(&scene);
    pid_t pid = start(scene.name, 0);
    fake_attach(&guest, scene.place.socket, "fake", 1);
    struct engine_target *list = engine_processes(scene.engine, &count);
    for (size_t i = 0; i < count; i++) {
        CHECK(i == 0 || list[i].cpu_ns <= list[i - 1].cpu_ns);
        attached += !list[i].is_unattached;
        own += list[i].pid == getpid() && strcmp(list[i].name, "fake") == 0;
        if (list[i].pid != pid)
            continue;
        sleeper++;
        CHECK_STR(list[i].name, scene.name);
        CHECK_STR(list[i].unavailable, "");
        CHECK_INT(find(&scene, (struct engine_selector){.uuid = list[i].uuid}), ==, SONDE_OK);
        CHECK_INT(scene.found.pid, ==, pid);
    }
    CHECK(attached == 1 && own == 1 && sleeper == 1);
    free(list);
    end(pid);
    fake_close(&guest);
    scene_finish(&scene);
}

TEST(a_name_that_begins_with_an_at_sign_gets_another_sign) {
    struct scene scene;
    struct fake_guest guest;
    scene_init(&scene);
    fake_attach(&guest, scene.place.socket, "@all", 1);
    CHECK_INT(find(&scene, (struct engine_selector){0}), ==, SONDE_OK);
    CHECK_STR(scene.found.name, "_all");
    fake_close(&guest);
    scene_finish(&scene);
}

/* --- life ------------------------------------------------------------------------------------- */

static void wait_for_hosts(struct scene *scene, uint32_t count) {
    for (int i = 0; i < 30000 && scene->engine->host_count != count; i++)
        usleep(1000);
    CHECK_INT(scene->engine->host_count, ==, count);
}

TEST(a_target_ends_with_its_process) {
    struct scene scene;
    scene_init(&scene);
    pid_t pid = start(scene.name, 0);
    struct target *first = get(&scene, (struct engine_selector){.pid = pid});
    struct target *again = get(&scene, (struct engine_selector){.name = scene.name});
    CHECK(first == again);
    wait_for_hosts(&scene, 1);
    end(pid);
    wait_for_hosts(&scene, 0);
    CHECK(!first->is_attached);
    target_release(first);
    target_release(again);
    scene_finish(&scene);
}

TEST(an_idle_target_ends_but_not_while_somebody_holds_it) {
    struct scene scene;
    scene_init(&scene);
    scene.engine->idle_ns = 10000000;
    pid_t pid = start(scene.name, 0);
    struct target *held = get(&scene, (struct engine_selector){.pid = pid});
    struct target *idle = get(&scene, (struct engine_selector){.pid = getpid()});
    CHECK_INT(scene.engine->host_count, ==, 2);
    target_release(idle);
    wait_for_hosts(&scene, 1);
    CHECK(held->is_attached);
    target_release(held);
    wait_for_hosts(&scene, 0);
    end(pid);
    scene_finish(&scene);
}

TEST(the_number_of_targets_is_limited_and_idle_ones_make_room) {
    struct scene scene;
    struct host_plan plan;
    struct target *target, *held;
    const struct engine_selector own = {.pid = getpid()};
    scene_init(&scene);
    held = get(&scene, own);
    CHECK_INT(host_plan_make(scene.engine, &own, &plan, NULL), ==, SONDE_OK);
    atomic_fetch_add(&scene.engine->host_count, HOST_MAX - 1);
    CHECK_INT(host_target_get(scene.engine, &plan, &target, NULL), ==, SONDE_OK); /* it exists */
    target_release(target);
    host_plan_finish(&plan);
    pid_t pid = start(scene.name, 0);
    const struct engine_selector other = {.pid = pid};
    CHECK_INT(host_plan_make(scene.engine, &other, &plan, NULL), ==, SONDE_OK);
    CHECK_INT(host_target_get(scene.engine, &plan, &target, &scene.diag), ==, SONDE_NOT_AVAILABLE);
    CHECK(says(&scene, "limit of 1024 targets"));
    CHECK(target == NULL);
    atomic_fetch_sub(&scene.engine->host_count, HOST_MAX - 1);
    CHECK_INT(host_target_get(scene.engine, &plan, &target, &scene.diag), ==, SONDE_OK);
    target_release(target);
    host_plan_finish(&plan);
    target_release(held);
    end(pid);
    scene_finish(&scene);
}
