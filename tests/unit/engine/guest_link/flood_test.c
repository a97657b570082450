/* SPDX-License-Identifier: Apache-2.0
 *
 * Guests that send more mappings than can be opened. */
#include "service/engine/capture/cpu_capture.h"
#include "tests/unit/engine/scene.h"

#include <pthread.h>
#include <stdio.h>

#define MANY 8000u

/* Claims mappings at addresses that depend on the generation, all of one file that does not exist. */
static void claim_maps(struct fake_guest *guest, uint64_t generation, uint32_t count) {
    sonde_guest_v1_FromGuest message = sonde_guest_v1_FromGuest_init_zero;
    sonde_guest_v1_Maps *maps = &message.message.maps;
    message.which_message = sonde_guest_v1_FromGuest_maps_tag;
    maps->generation = generation;
    for (uint32_t i = 0; i < count; i++) {
        sonde_guest_v1_Mapping *mapping = &maps->mappings[maps->mappings_count++];
        mapping->start = generation << 36 | (uint64_t)i << 12;
        mapping->end = mapping->start + 0x1000;
        mapping->inode = 1;
        snprintf(mapping->path, sizeof mapping->path, "/nonexistent/flood");
        if (maps->mappings_count < 16 && i + 1 < count)
            continue;
        maps->last = i + 1 == count;
        fake_send(guest, &message, -1);
        maps->mappings_count = 0;
    }
}

/* An engine whose loop the test runs step by step, and whose only builder waits for the gate. */
struct held {
    struct place place;
    struct engine *engine;
    struct fake_guest guest;
    struct engine_work work;
    pthread_mutex_t gate;
};

static void wait_at_gate(struct engine_work *work) {
    struct held *held = container_of(work, struct held, work);
    pthread_mutex_lock(&held->gate);
    pthread_mutex_unlock(&held->gate);
}

static void held_init(struct held *held) {
    struct sonde_diag diag = {0};
    memset(held, 0, sizeof *held);
    place_make(&held->place);
    struct engine_options options = {.socket_path = held->place.socket, .workers = 1};
    CHECK_INT(engine_open(&options, &held->engine, &diag), ==, SONDE_OK);
    pthread_mutex_init(&held->gate, NULL);
    pthread_mutex_lock(&held->gate);
    held->work.run = wait_at_gate;
    pool_add(held->engine->builders, &held->work);
    fake_connect(&held->guest, held->place.socket);
    fake_hello(&held->guest, "flood", 1);
}

/* Returns the guest's target after the loop has read everything that was sent. */
static struct target *read_all(struct held *held) {
    for (int i = 0; i < 20; i++)
        engine_round(held->engine, 10);
    CHECK(held->engine->targets != NULL);
    return held->engine->targets;
}

static void held_finish(struct held *held) {
    fake_close(&held->guest);
    atomic_store(&held->engine->is_ending, true);
    engine_close(held->engine);
    place_remove(&held->place);
}

TEST(at_most_tables_max_opening_mappings_of_a_target_wait_for_workers) {
    struct held held;
    held_init(&held);
    claim_maps(&held.guest, 1, 1000);
    CHECK_INT(read_all(&held)->opening, ==, TABLES_MAX_OPENING);
    claim_maps(&held.guest, 2, 1000);
    struct target *target = read_all(&held);
    CHECK_INT(target->opening, ==, TABLES_MAX_OPENING);
    const struct generation *newest = target->space.generations[0];
    CHECK_INT(newest->number, ==, 2);
    CHECK_INT(newest->asked, ==, 0);
    pthread_mutex_unlock(&held.gate);
    while (newest->served < newest->count)
        engine_round(held.engine, 10);
    CHECK_INT(newest->count, ==, 1000);
    CHECK(newest->is_done);
    CHECK_INT(target->opening, ==, 0);
    /* Of the first generation, only those were opened that waited already. */
    uint32_t opened = 0;
    for (uint32_t i = 0; i < target->space.generations[1]->count; i++)
        opened += target->space.generations[1]->mappings[i]->is_opened;
    CHECK_INT(opened, ==, TABLES_MAX_OPENING);
    held_finish(&held);
}

TEST(a_guest_with_many_mappings_gets_an_answer_for_all) {
    struct scene scene;
    sonde_guest_v1_ToGuest message;
    scene_init(&scene);
    claim_maps(&scene.guest, 1, MANY);
    fake_expect(&scene.guest, sonde_guest_v1_ToGuest_tables_done_tag, &message);
    CHECK_INT(message.message.tables_done.generation, ==, 1);
    scene_finish(&scene);
}

TEST(generations_that_come_faster_than_they_can_be_opened_do_not_end_the_connection) {
    struct scene scene;
    sonde_guest_v1_ToGuest message;
    scene_init(&scene);
    for (uint64_t generation = 1; generation <= 20; generation++)
        claim_maps(&scene.guest, generation, MANY);
    do
        fake_expect(&scene.guest, sonde_guest_v1_ToGuest_tables_done_tag, &message);
    while (message.message.tables_done.generation != 20);
    scene_finish(&scene);
}

TEST(ignored_mappings_and_forgotten_maps_are_reported) {
    struct scene scene;
    struct engine_cpu_spec spec = {.frequency_hz = 100};
    const uint64_t pcs[] = PCS(burn_leaf);
    struct fake_sample late = {.tid = 1, .generation = 1, .weight_ns = 10 * MS};
    scene_init(&scene);
    begin(&scene, &spec);
    start_clock(&scene);
    CHECK(fake_push(&scene.guest, &late, pcs, 2));
    settle(&scene);
    for (uint64_t generation = 2; generation <= 4; generation++)
        claim_maps(&scene.guest, generation, SPACE_MAX_MAPPINGS + 1000);
    sonde_guest_v1_ToGuest message;
    do
        fake_expect(&scene.guest, sonde_guest_v1_ToGuest_tables_done_tag, &message);
    while (message.message.tables_done.generation != 4);
    CHECK(fake_push(&scene.guest, &late, pcs, 2));
    CHECK(fake_push(&scene.guest, &late, pcs, 2));
    settle(&scene);
    engine_capture_finish(scene.capture);
    fake_stop(&scene.guest);
    collect_wait_end(&scene.collected);
    CHECK_STR(collect_comment(scene.collected.profiles[0], "unnamed code: "),
              "unnamed code: 1000 mappings beyond the limit of 8192, 2 samples of memory maps that "
              "changed too fast");
    scene_finish(&scene);
}
