/* SPDX-License-Identifier: Apache-2.0
 *
 * Guests that send more mappings than can be opened. */
#include "service/engine/capture/cpu_capture.h"
#include "service/engine/loop/loop.h"
#include "tests/unit/engine/scene.h"

#include <pthread.h>
#include <stdio.h>

#define MANY    8000u
#define BACKLOG 100u /* frames that fit in the buffer of a socket */

/* Claims mappings of a file that does not exist, at addresses that depend on the generation. */
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
    struct engine_options options = {
        .socket_path = held->place.socket, .workers = 1, .source = ENGINE_GUEST};
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
    CHECK_INT(read_all(&held)->guest->opening, ==, TABLES_MAX_OPENING);
    claim_maps(&held.guest, 2, 1000);
    struct target *target = read_all(&held);
    CHECK_INT(target->guest->opening, ==, TABLES_MAX_OPENING);
    const struct generation *newest = target->space.generations[0];
    CHECK_INT(newest->number, ==, 2);
    CHECK_INT(newest->asked, ==, 0);
    pthread_mutex_unlock(&held.gate);
    while (newest->served < newest->count)
        engine_round(held.engine, 10);
    CHECK_INT(newest->count, ==, 1000);
    CHECK(newest->is_done);
    CHECK_INT(target->guest->opening, ==, 0);
    /* Of the first generation, only those were opened that waited already. */
    uint32_t opened = 0;
    for (uint32_t i = 0; i < target->space.generations[1]->count; i++)
        opened += target->space.generations[1]->mappings[i]->is_opened;
    CHECK_INT(opened, ==, TABLES_MAX_OPENING);
    held_finish(&held);
}

static struct target *target_called(struct engine *engine, const char *name) {
    struct target *target = engine->targets;
    while (target && strcmp(target->info.name, name) != 0)
        target = target->next;
    return target;
}

/* Many small generations: with 1 ns per turn, each frame is a turn. */
TEST(frames_that_are_slow_to_handle_do_not_delay_another_guest) {
    struct held held;
    struct fake_guest neighbour;
    held_init(&held);
    read_all(&held);
    held.engine->turn_ns = 1;
    for (uint64_t generation = 1; generation <= BACKLOG; generation++)
        claim_maps(&held.guest, generation, 1);
    fake_connect(&neighbour, held.place.socket);
    fake_hello(&neighbour, "neighbour", 2);
    int rounds = 0;
    for (; rounds < 100 && !target_called(held.engine, "neighbour"); rounds++)
        engine_round(held.engine, 10);
    CHECK_INT(rounds, <, 10);
    struct target *flood = target_called(held.engine, "flood");
    CHECK_INT(flood->space.last_serial, <=, 2 * rounds + 1);
    while (flood->space.last_serial < BACKLOG) /* nothing is lost */
        engine_round(held.engine, 10);
    pthread_mutex_unlock(&held.gate);
    fake_close(&neighbour);
    held_finish(&held);
}

#define CROWD 20

/* The targets of a user share the user's time: with 1 ns, one of them reads one frame per turn. */
TEST(a_user_with_many_guests_does_not_delay_another_user) {
    struct held held;
    struct fake_guest crowd[CROWD], neighbour;
    held_init(&held);
    for (uint32_t i = 0; i < CROWD; i++) {
        fake_connect(&crowd[i], held.place.socket);
        fake_hello(&crowd[i], "crowd", 100 + i);
    }
    read_all(&held);
    CHECK_INT(held.engine->target_count, ==, CROWD + 1);
    for (struct target *target = held.engine->targets; target; target = target->next)
        target->uid = 54321;
    held.engine->turn_ns = held.engine->user_ns = 1;
    for (uint32_t i = 0; i < CROWD; i++)
        for (uint64_t generation = 1; generation <= 10; generation++)
            claim_maps(&crowd[i], generation, 1);
    fake_connect(&neighbour, held.place.socket);
    fake_hello(&neighbour, "neighbour", 2);
    int rounds = 0;
    for (; rounds < 100 && !target_called(held.engine, "neighbour"); rounds++)
        engine_round(held.engine, 10);
    uint64_t read = 0;
    for (struct target *target = held.engine->targets; target; target = target->next)
        read += target->space.last_serial;
    CHECK_INT(rounds, <, 10);
    CHECK_INT(read, <=, rounds);
    while (read < 10 * CROWD) { /* nothing is lost */
        engine_round(held.engine, 10);
        read = 0;
        for (struct target *target = held.engine->targets; target; target = target->next)
            read += target->space.last_serial;
    }
    for (uint32_t i = 0; i < CROWD; i++)
        fake_close(&crowd[i]);
    pthread_mutex_unlock(&held.gate);
    fake_close(&neighbour);
    held_finish(&held);
}

/* A turn that is over at once reads DRAIN_LOOK - 1 records. */
static void rings_init(struct target *target, struct fake_guest *guest, uint32_t records) {
    const uint64_t pcs[] = {1, 2, 3};
    struct sonde_diag diag = {0};
    *guest = (struct fake_guest){.fd = -1, .rings_fd = -1, .last_fd = -1};
    fake_make_rings(guest, 1);
    CHECK_INT(guest_rings_map(target, guest->rings_fd, &diag), ==, SONDE_OK);
    for (uint32_t i = 0; i < records; i++)
        CHECK(fake_push_sample(guest, 1, 1000, pcs, 3));
}

TEST(rings_with_a_backlog_are_read_in_turns_and_nothing_is_lost) {
    static struct engine engine;
    static struct guest_link link = {.fd = -1};
    static struct target target = {.engine = &engine, .guest = &link};
    struct fake_guest guest;
    rings_init(&target, &guest, 100);
    int turns = 1;
    while (guest_rings_drain(&target, 1, ENGINE_DRAIN_BYTES))
        turns++;
    CHECK_INT(turns, ==, 100 / (DRAIN_LOOK - 1) + 1);
    CHECK_INT(target.totals.drops[DROP_UNREAD], ==, 0);
    fake_wait_drained(&guest);
    guest_rings_unmap(&target);
    fake_close(&guest);
}

TEST(last_records_that_cannot_be_read_in_time_are_dropped_and_counted) {
    static struct engine engine;
    static struct guest_link link = {.fd = -1};
    static struct target target = {.engine = &engine, .guest = &link};
    struct fake_guest guest;
    rings_init(&target, &guest, 100);
    guest_rings_drain_all(&target, 1);
    CHECK_INT(target.totals.drops[DROP_UNREAD], ==, 100 - (DRAIN_LOOK - 1));
    CHECK_INT(engine.drops[DROP_UNREAD], ==, 100 - (DRAIN_LOOK - 1));
    CHECK_STR(drop_cause_name(DROP_UNREAD), "unread");
    fake_wait_drained(&guest);
    guest_rings_drain_all(&target, 1); /* nothing is left */
    CHECK_INT(target.totals.drops[DROP_UNREAD], ==, 100 - (DRAIN_LOOK - 1));
    guest_rings_unmap(&target);
    fake_close(&guest);
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
