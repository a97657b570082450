/* SPDX-License-Identifier: Apache-2.0
 *
 * A simulated host against the controller's decoder: what arrives sums up to the truth, and a host
 * that lies is found out. */
#include "clients/collect/host/decode.h"
#include "service/store/ids.h"
#include "tests/fleet/simulator/host.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SEQ   4096
#define BEGIN_S   1700000000
#define PROCESSES 3

/* A controller's side of one host. */
struct scene {
    struct host_fleet fleet;
    struct host host;
    struct decoder decoder;
    int64_t now_s;
    bool seen[4][MAX_SEQ]; /* [epoch] */
    uint64_t last_seq, merged;
    struct truth_sums stored;
};

static void scene_init(struct scene *scene) {
    memset(scene, 0, sizeof *scene);
    pool_init(&scene->fleet.pool, 7, 5, 100);
    truth_init(&scene->fleet.truth, &scene->fleet.pool);
    scene->fleet.processes = PROCESSES;
    scene->fleet.samples = 30;
    scene->fleet.keep_bytes = HOST_KEEP_BYTES;
    scene->now_s = BEGIN_S;
    host_init(&scene->host, &scene->fleet, 2, scene->now_s);
    decoder_init(&scene->decoder, NULL);
}

static void scene_finish(struct scene *scene) {
    decoder_finish(&scene->decoder);
    host_finish(&scene->host);
    truth_finish(&scene->fleet.truth);
    pool_finish(&scene->fleet.pool);
}

static void call(struct scene *scene, double probability) {
    Sonde__V1__CollectRequest request = SONDE__V1__COLLECT_REQUEST__INIT;
    Sonde__V1__CollectStart start = SONDE__V1__COLLECT_START__INIT;
    Sonde__V1__CollectSettings settings = SONDE__V1__COLLECT_SETTINGS__INIT;
    Sonde__V1__CollectRule rule = SONDE__V1__COLLECT_RULE__INIT, *rules[] = {&rule};
    rule.service = (char *)"service-*";
    rule.probability = probability;
    settings.rules = rules;
    settings.n_rules = 1;
    request.start = &start;
    request.settings = &settings;
    host_connect(&scene->host);
    CHECK_INT(host_receive(&scene->host, &request, true, NULL), ==, SONDE_OK);
}

static void on_window(void *context, const Sonde__V1__StoredWindow *window) {
    struct scene *scene = context;
    CHECK_INT(window->seq, <, MAX_SEQ);
    CHECK_INT(window->epoch, <, 4);
    if (window->seq > scene->last_seq)
        scene->last_seq = window->seq;
    if (scene->seen[window->epoch][window->seq])
        return;
    scene->seen[window->epoch][window->seq] = true;
    scene->stored.windows++;
    scene->stored.samples += (int64_t)window->samples;
    for (size_t i = 0; i < window->n_value; i++)
        scene->stored.value += (int64_t)((double)window->value[i] * window->weight);
}

static void check_ids(const struct decoded_entry *entry) {
    Sonde__V1__WriteRequest *request = sonde__v1__write_request__unpack(
        NULL, entry->bytes.len, (const uint8_t *)entry->bytes.data);
    CHECK(request);
    for (size_t i = 0; i < request->n_stacks; i++) {
        const Sonde__V1__StoredStack *stack = request->stacks[i];
        CHECK(stack->id == store_stack_id(stack->service, stack->frames, stack->n_frames));
    }
    for (size_t i = 0; i < request->n_frames; i++) {
        const Sonde__V1__StoredFrame *frame = request->frames[i];
        CHECK(frame->id == store_frame_id(frame->build_id, frame->module, frame->address, ""));
    }
    sonde__v1__write_request__free_unpacked(request, NULL);
}

static void receive(struct scene *scene, const Sonde__V1__CollectResponse *response) {
    struct sonde_diag diag = {0};
    struct decoded_entry *entries = NULL;
    if (response->hello)
        CHECK_INT(decoder_hello(&scene->decoder, response->hello, "name", NULL, 0, &diag), ==, 0);
    CHECK_INT(decoder_read(&scene->decoder, response, on_window, scene, &entries, &diag), ==, 0);
    for (struct decoded_entry *entry = entries; entry; entry = entry->next)
        check_ids(entry);
    decoded_entry_free(entries);
}

/* Receives all that there is; returns how many messages that was. */
static int drain(struct scene *scene) {
    struct sonde_arena arena = {0};
    Sonde__V1__CollectResponse *response;
    int count = 0;
    for (; (response = host_next(&scene->host, &arena, scene->now_s)); count++)
        receive(scene, response);
    sonde_arena_finish(&arena);
    return count;
}

static void acknowledge(struct scene *scene) {
    Sonde__V1__CollectRequest request = SONDE__V1__COLLECT_REQUEST__INIT;
    Sonde__V1__CollectAck ack = SONDE__V1__COLLECT_ACK__INIT;
    ack.epoch = scene->host.epoch;
    ack.seq = scene->last_seq;
    request.ack = &ack;
    CHECK_INT(host_receive(&scene->host, &request, false, NULL), ==, SONDE_OK);
}

static void advance(struct scene *scene, int seconds) {
    scene->now_s += seconds;
    host_advance(&scene->host, scene->now_s);
}

static struct truth_sums truth_of(const struct scene *scene) {
    struct truth_sums all = {0};
    for (size_t i = 0; i < scene->fleet.pool.service_count; i++) {
        const struct truth_sums *sums = &scene->fleet.truth.sums[i][TRUTH_ON_CPU];
        all.windows += sums->windows;
        all.samples += sums->samples;
        all.value += sums->value;
    }
    return all;
}

static bool agrees(const struct scene *scene) {
    struct truth_sums truth = truth_of(scene);
    return memcmp(&truth, &scene->stored, sizeof truth) == 0;
}

TEST(what_arrives_is_the_truth) {
    struct scene scene;
    scene_init(&scene);
    call(&scene, 1);
    for (int i = 0; i < 12; i++) {
        advance(&scene, 10);
        drain(&scene);
        acknowledge(&scene);
    }
    CHECK_INT(scene.stored.windows, ==, 12 * PROCESSES);
    CHECK_INT(scene.host.kept_bytes, ==, 0);
    CHECK_INT(scene.fleet.truth.acknowledged, ==, 12 * PROCESSES);
    CHECK(agrees(&scene));
    scene_finish(&scene);
}

TEST(the_same_seed_makes_the_same_windows) {
    struct scene scenes[2];
    for (int i = 0; i < 2; i++) {
        scene_init(&scenes[i]);
        call(&scenes[i], 1);
        advance(&scenes[i], 100);
    }
    struct truth_sums first = truth_of(&scenes[0]), second = truth_of(&scenes[1]);
    CHECK_INT(first.value, >, 0);
    CHECK(memcmp(&first, &second, sizeof first) == 0);
    scene_finish(&scenes[0]);
    scene_finish(&scenes[1]);
}

TEST(what_was_not_acknowledged_comes_again_and_counts_once) {
    struct scene scene;
    scene_init(&scene);
    call(&scene, 1);
    advance(&scene, 30);
    drain(&scene);
    CHECK_INT(scene.host.kept_bytes, >, 0);
    uint64_t messages = scene.host.messages;
    host_repeat(&scene.host);
    drain(&scene);
    CHECK_INT(scene.host.messages, >, messages);
    call(&scene, 1);
    CHECK_INT(drain(&scene), >=, 1);
    CHECK_INT(scene.host.call_windows, ==, 3 * PROCESSES);
    CHECK(agrees(&scene));
    acknowledge(&scene);
    call(&scene, 1);
    drain(&scene);
    CHECK_INT(scene.host.call_windows, ==, 0);
    scene_finish(&scene);
}

TEST(a_full_memory_merges_then_drops_and_counts_both) {
    struct scene scene;
    scene_init(&scene);
    call(&scene, 1);
    scene.host.keep_bytes = 16384;
    for (int i = 0; i < 1000; i++)
        advance(&scene, 10);
    CHECK_INT(scene.host.kept_bytes, <=, 16384);
    drain(&scene);
    acknowledge(&scene);
    CHECK_INT(scene.fleet.truth.merged, >, 0);
    CHECK_INT(scene.fleet.truth.lost_by_memory, >, 0);
    CHECK_INT(scene.host.lost, ==, scene.fleet.truth.lost_by_memory);
    CHECK_INT(scene.host.reported_lost, ==, scene.host.lost);
    CHECK_INT(scene.stored.windows, >, 0);
    CHECK(agrees(&scene));
    scene_finish(&scene);
}

TEST(what_was_sent_is_neither_merged_nor_dropped) {
    struct scene scene;
    scene_init(&scene);
    call(&scene, 1);
    scene.host.keep_bytes = 8192;
    for (int i = 0; i < 200; i++) {
        advance(&scene, 10);
        if (i < 3)
            drain(&scene);
    }
    drain(&scene);
    CHECK(agrees(&scene));
    scene_finish(&scene);
}

TEST(a_host_that_is_killed_reports_what_was_lost_and_what_is_in_doubt) {
    struct scene scene;
    scene_init(&scene);
    call(&scene, 1);
    advance(&scene, 20);
    drain(&scene);
    advance(&scene, 20);
    host_restart(&scene.host, scene.now_s);
    CHECK_INT(scene.host.epoch, ==, 2);
    CHECK_INT(scene.fleet.truth.lost_by_restart, ==, 4 * PROCESSES);
    CHECK_INT(scene.fleet.truth.doubt_count, ==, 2 * PROCESSES);
    CHECK_INT(truth_of(&scene).windows, ==, 0);
    call(&scene, 1);
    advance(&scene, 20);
    drain(&scene);
    struct truth_sums truth = truth_of(&scene);
    for (size_t i = 0; i < scene.fleet.truth.doubt_count; i++)
        truth.value += scene.fleet.truth.doubts[i].sums.value;
    CHECK_INT(truth.value, ==, scene.stored.value);
    scene_finish(&scene);
}

TEST(a_window_that_vanishes_or_counts_twice_is_noticed) {
    for (int lie = -1; lie <= 1; lie += 2) {
        struct scene scene;
        scene_init(&scene);
        call(&scene, 1);
        advance(&scene, 50);
        host_lie(&scene.host, lie);
        advance(&scene, 50);
        drain(&scene);
        CHECK(!agrees(&scene));
        CHECK_INT(scene.stored.windows, ==, truth_of(&scene).windows + lie);
        scene_finish(&scene);
    }
}

TEST(settings_decide_what_is_recorded) {
    struct scene scene;
    scene_init(&scene);
    advance(&scene, 50);
    CHECK_INT(scene.fleet.truth.recorded, ==, 0);
    call(&scene, 0);
    advance(&scene, 50);
    CHECK_INT(scene.fleet.truth.recorded, ==, 0);
    call(&scene, 0.5);
    for (int i = 0; i < 100; i++)
        advance(&scene, 300);
    CHECK_INT(scene.fleet.truth.recorded, >, 0);
    CHECK_INT(scene.fleet.truth.recorded, <, 100 * 30 * PROCESSES);
    CHECK(scene.host.first->weight == 2);
    scene_finish(&scene);
}

TEST(stacks_are_defined_again_on_request) {
    struct scene scene;
    scene_init(&scene);
    call(&scene, 1);
    advance(&scene, 10);
    drain(&scene);
    Sonde__V1__CollectRequest request = SONDE__V1__COLLECT_REQUEST__INIT;
    uint64_t ids[] = {scene.fleet.pool.services[2].stacks[0].id, 12345};
    request.resend_stacks = ids;
    request.n_resend_stacks = 2;
    CHECK_INT(host_receive(&scene.host, &request, false, NULL), ==, SONDE_OK);
    struct sonde_arena arena = {0};
    Sonde__V1__CollectResponse *response = host_next(&scene.host, &arena, scene.now_s);
    CHECK(response);
    CHECK_INT(response->n_stacks, ==, 1);
    CHECK(response->stacks[0]->id == ids[0]);
    CHECK_INT(response->n_frames, >, 0);
    receive(&scene, response);
    CHECK(!host_next(&scene.host, &arena, scene.now_s));
    sonde_arena_finish(&arena);
    scene_finish(&scene);
}
