/* SPDX-License-Identifier: Apache-2.0
 *
 * Several threads start and end captures while guests connect, answer, misbehave and leave, and the
 * engine is destroyed in the middle of it. Every capture must end exactly once; the sanitizers
 * check the rest. */
#include "tests/unit/engine/scene.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#define CALLERS 4
#define ROUNDS  60

struct storm {
    struct place place;
    struct engine *engine;
    _Atomic int begun, ended, answered, asked;
    _Atomic bool is_over;
};

static void on_progress(void *context, const struct engine_progress *progress) {
}

static void on_profile(void *context, struct sonde_profile *profile,
                       const struct engine_metadata *metadata) {
    sonde_profile_destroy(profile);
}

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    atomic_fetch_add(&((struct storm *)context)->ended, 1);
}

static void on_target(void *context, bool attached, const struct engine_target *target) {
}

static void on_symbols(void *context, sonde_err err, const struct sonde_diag *diag,
                       const struct engine_symbol *symbols, size_t count) {
    atomic_fetch_add(&((struct storm *)context)->answered, 1);
}

static const struct engine_capture_events events = {
    .on_progress = on_progress, .on_profile = on_profile, .on_end = on_end};
static const struct engine_selector steady = {.name = "steady"};

static void one_capture(struct storm *storm, unsigned *seed) {
    struct engine_capture *capture = NULL;
    struct engine_cpu_spec spec = {
        .target = {.name = rand_r(seed) % 2 ? "steady" : "fickle"},
        .frequency_hz = 1 + (uint32_t)rand_r(seed) % 1000,
        .duration_ms = (uint32_t)rand_r(seed) % 30,
        .window_ms = (uint32_t)rand_r(seed) % 5,
        .progress_ms = (uint32_t)rand_r(seed) % 5,
    };
    if (engine_capture_cpu(storm->engine, &spec, &events, storm, &capture, NULL) != SONDE_OK)
        return;
    atomic_fetch_add(&storm->begun, 1);
    usleep((useconds_t)rand_r(seed) % 3000);
    int choice = rand_r(seed) % 4;
    if (choice & 1)
        engine_capture_finish(capture);
    if (choice & 2)
        engine_capture_cancel(capture);
    engine_capture_release(capture);
}

static void one_session(struct storm *storm, unsigned *seed) {
    struct engine_cpu_spec spec = {.target = steady, .frequency_hz = 99};
    sonde_err err = engine_session_start(storm->engine, &spec, 5, "storm", NULL, NULL);
    if (err != SONDE_OK && rand_r(seed) % 2)
        return;
    if (engine_session_stop(storm->engine, &steady, &events, storm, NULL) == SONDE_OK)
        atomic_fetch_add(&storm->begun, 1);
}

static void *call(void *context) {
    struct storm *storm = context;
    unsigned seed = (unsigned)atomic_fetch_add(&storm->asked, 0) + 17;
    const uint64_t address = (uint64_t)(uintptr_t)burn_leaf;
    for (int i = 0; i < ROUNDS; i++) {
        struct engine_target target;
        struct engine_counters counters;
        struct engine_watch *watch;
        size_t count;
        one_capture(storm, &seed);
        if (i % 5 == 0)
            one_session(storm, &seed);
        if (i % 7 == 0 && engine_symbolize(storm->engine, &steady, &address, 1, true, on_symbols,
                                           storm, NULL) == SONDE_OK)
            atomic_fetch_add(&storm->asked, 1);
        if (engine_find(storm->engine, &steady, &target, NULL) == SONDE_OK && !target.is_unattached)
            engine_counters(storm->engine, &counters);
        free(engine_targets(storm->engine, &count));
        if (engine_watch(storm->engine, on_target, NULL, &watch) == SONDE_OK)
            engine_unwatch(storm->engine, watch);
    }
    return NULL;
}

/* Answers the engine's messages until the test is over. */
static void serve(struct storm *storm, struct fake_guest *guest) {
    const uint64_t pcs[] = PCS(burn_leaf);
    uint64_t generation = 0;
    fake_make_rings(guest, 2);
    while (!atomic_load(&storm->is_over)) {
        sonde_guest_v1_ToGuest message;
        (void)fake_push_sample(guest, 1, MS, pcs, 2);
        if (fake_is_quiet(guest, 1))
            continue;
        if (!fake_read(guest, &message))
            return;
        if (message.which_message != sonde_guest_v1_ToGuest_cpu_config_tag)
            continue;
        if (generation++ == 0)
            fake_send_rings(guest);
        if (message.message.cpu_config.period_ns && generation % 8 == 1)
            fake_send_maps(guest, generation);
        fake_send_state(guest, message.message.cpu_config.sequence,
                        message.message.cpu_config.period_ns != 0, "fake");
    }
}

static void *run_server(void *arguments) {
    void **both = arguments;
    serve(both[0], both[1]);
    return NULL;
}

static void *come_and_go(void *context) {
    struct storm *storm = context;
    for (uint32_t i = 0; !atomic_load(&storm->is_over); i++) {
        struct fake_guest guest;
        fake_connect(&guest, storm->place.socket);
        fake_hello(&guest, "fickle", 100 + i);
        usleep(1000 * (i % 7));
        if (i % 3 == 0)
            fake_send_raw(&guest, "\xff\xff\xff\xff", 4);
        fake_close(&guest);
    }
    return NULL;
}

TEST(every_capture_ends_once_whatever_happens_beside_it) {
    struct storm storm = {0};
    struct fake_guest guest;
    pthread_t callers[CALLERS], fickle, waiter;
    place_make(&storm.place);
    storm.engine = place_engine(&storm.place);
    fake_attach(&guest, storm.place.socket, "steady", 1);
    for (int i = 0; i < CALLERS; i++)
        CHECK_INT(pthread_create(&callers[i], NULL, call, &storm), ==, 0);
    CHECK_INT(pthread_create(&fickle, NULL, come_and_go, &storm), ==, 0);
    void *server_arguments[] = {&storm, &guest};
    CHECK_INT(pthread_create(&waiter, NULL, run_server, server_arguments), ==, 0);
    for (int i = 0; i < CALLERS; i++)
        pthread_join(callers[i], NULL);
    atomic_store(&storm.is_over, true);
    pthread_join(fickle, NULL);
    pthread_join(waiter, NULL);
    engine_destroy(storm.engine);
    fake_close(&guest);
    CHECK_INT(storm.begun, >, 50);
    CHECK_INT(storm.ended, ==, storm.begun);
    CHECK_INT(storm.answered, ==, storm.asked);
    place_remove(&storm.place);
}
