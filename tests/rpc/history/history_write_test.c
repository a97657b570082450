/* SPDX-License-Identifier: Apache-2.0
 *
 * History.Write: what is stored, what is refused, and what is asked for again. */
#include "service/store/ids.h"
#include "service/store/store.h"
#include "tests/rpc/history/history_setup.h"
#include "tests/unit/check.h"
#include "tests/unit/store/fake_store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct history_setup scene;

static struct recording *one_window(uint64_t seq) {
    struct recording *recording = recording_create();
    recording_window(recording, &(struct recorded){.seq = seq});
    recording_row(recording, "main;work", "io", 100);
    return recording;
}

struct counts {
    uint32_t stored, duplicates, rejected;
    size_t unknown;
};

static struct counts write_once(const Sonde__V1__WriteRequest *request) {
    Sonde__V1__WriteResponse *response = history_write(&scene, request);
    struct counts counts = {response->stored, response->duplicates, response->rejected,
                            response->n_unknown_stacks};
    CHECK_INT(response->delivery, ==, request->delivery);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    return counts;
}

/* The sum of all values, as text. */
static const char *sum(void) {
    Sonde__V1__QueryProfileRequest request = SONDE__V1__QUERY_PROFILE_REQUEST__INIT;
    Sonde__V1__Rendering rendering = SONDE__V1__RENDERING__INIT;
    rendering.format = SONDE__V1__FORMAT__COLLAPSED;
    request.rendering = &rendering;
    CHECK_INT(history_profile(&scene, &client_query_profile, &request.base, NULL), ==, SONDE_OK);
    return scene.document.data;
}

TEST(a_window_that_arrives_twice_is_stored_once) {
    struct recording *recording = one_window(7);
    history_setup_begin(&scene, true);
    recording_request(recording)->delivery = 42;
    struct counts first = write_once(recording_request(recording));
    CHECK_INT(first.stored, ==, 1);
    struct counts second = write_once(recording_request(recording));
    CHECK_INT(second.stored, ==, 0);
    CHECK_INT(second.duplicates, ==, 1);
    CHECK_STR(sum(), "main;work 100\n");
    recording_destroy(recording);
    history_setup_end(&scene);
}

TEST(a_weight_scales_the_values_and_0_means_1) {
    struct recording *recording = recording_create();
    history_setup_begin(&scene, true);
    recording_window(recording, &(struct recorded){.weight = 0});
    recording_row(recording, "main;work", "io", 100);
    recording_window(recording, &(struct recorded){.weight = 2.5, .pid = 2});
    recording_row(recording, "main;work", "io", 100);
    CHECK_INT(write_once(recording_request(recording)).stored, ==, 2);
    CHECK_STR(sum(), "main;work 350\n");
    recording_destroy(recording);
    history_setup_end(&scene);
}

TEST(a_stack_or_frame_whose_id_is_wrong_is_rejected) {
    struct recording *recording = one_window(0);
    Sonde__V1__WriteRequest *request = recording_request(recording);
    history_setup_begin(&scene, true);
    request->stacks[0]->id++;
    struct counts counts = write_once(request);
    CHECK_INT(counts.rejected, ==, 1);
    CHECK_INT(counts.unknown, ==, 1); /* the window's stack is not there */
    request->stacks[0]->id--;
    request->frames[0]->id++;
    request->frames[1]->address++;
    counts = write_once(request);
    CHECK_INT(counts.rejected, ==, 2);
    CHECK_INT(counts.unknown, ==, 0);
    recording_destroy(recording);
    history_setup_end(&scene);
}

TEST(a_frame_without_module_has_the_name_of_its_function_in_its_id) {
    Sonde__V1__WriteRequest request = SONDE__V1__WRITE_REQUEST__INIT;
    Sonde__V1__StoredFrame frame = SONDE__V1__STORED_FRAME__INIT, *frames[] = {&frame};
    Sonde__V1__StoredLine inlined = SONDE__V1__STORED_LINE__INIT;
    Sonde__V1__StoredLine outer = SONDE__V1__STORED_LINE__INIT;
    Sonde__V1__StoredLine *lines[] = {&inlined, &outer};
    history_setup_begin(&scene, true);
    inlined.function = "inlined";
    outer.function = "jit";
    frame.address = 0x1000;
    frame.lines = lines;
    frame.n_lines = 2;
    frame.version = 1;
    frame.id = store_frame_id("", "", 0x1000, "jit");
    request.frames = frames;
    request.n_frames = 1;
    CHECK_INT(write_once(&request).rejected, ==, 0);
    frame.id = store_frame_id("", "", 0x1000, "other");
    CHECK_INT(write_once(&request).rejected, ==, 1);
    history_setup_end(&scene);
}

TEST(stacks_that_the_store_lacks_are_asked_for_until_they_arrive) {
    struct recording *recording = one_window(0);
    Sonde__V1__WriteRequest *request = recording_request(recording);
    history_setup_begin(&scene, true);
    request->n_stacks = 0;
    Sonde__V1__WriteResponse *response = history_write(&scene, request);
    CHECK_INT(response->stored, ==, 1);
    CHECK_INT(response->n_unknown_stacks, ==, 1);
    CHECK_INT(response->unknown_stacks[0], ==, request->windows[0]->stack[0]);
    protobuf_c_message_free_unpacked(&response->base, NULL);
    CHECK(strstr(sum(), "main") == NULL);
    CHECK_INT(scene.start->completeness->unknown_stacks, ==, 1);
    request->n_stacks = 1;
    request->n_windows = 0;
    CHECK_INT(write_once(request).unknown, ==, 0);
    request->n_stacks = 0;
    request->n_windows = 1;
    CHECK_INT(write_once(request).unknown, ==, 0);
    CHECK_STR(sum(), "main;work 100\n");
    recording_destroy(recording);
    history_setup_end(&scene);
}

TEST(at_most_10000_unknown_stacks_are_named) {
    struct recording *recording = recording_create();
    history_setup_begin(&scene, true);
    for (uint32_t i = 0; i < 3; i++) {
        Sonde__V1__StoredWindow *window =
            recording_window(recording, &(struct recorded){.pid = i + 1});
        recording_row(recording, "main", "io", 1);
        for (uint64_t row = 1; row < 4000; row++) {
            window->stack[window->n_stack++] = 4000 * i + row;
            window->thread[window->n_thread++] = 0;
            window->value[window->n_value++] = 1;
        }
    }
    CHECK_INT(write_once(recording_request(recording)).unknown, ==, 10000);
    recording_destroy(recording);
    history_setup_end(&scene);
}

static void check_refused(Sonde__V1__WriteRequest *request, const char *text) {
    struct sonde_diag diag = {0};
    CHECK_INT(history_try_write(&scene, request, &diag), ==, SONDE_INVALID_ARGUMENT);
    if (!strstr(diag.text, text))
        check_fail(__FILE__, __LINE__, "\"%s\" does not have \"%s\"", diag.text, text);
}

TEST(a_message_that_breaks_a_bound_ends_the_call) {
    struct recording *recording = one_window(0);
    Sonde__V1__WriteRequest *request = recording_request(recording);
    Sonde__V1__StoredWindow *window = request->windows[0];
    char *service = window->service;
    history_setup_begin(&scene, true);
    window->thread[0] = 256; /* which is 0 as a byte */
    check_refused(request, "thread: index 256");
    window->thread[0] = 0;
    window->n_value = 0;
    check_refused(request, "one value per row");
    window->n_value = 1;
    window->n_threads = 256;
    for (int i = 0; i < 256; i++)
        window->threads[i] = "t";
    check_refused(request, "threads: 256");
    window->n_threads = 1;
    window->length_s = 3601;
    check_refused(request, "length_s");
    window->length_s = 10;
    window->weight = NAN;
    check_refused(request, "weight");
    window->weight = 0;
    window->service = "";
    check_refused(request, "service");
    window->service = service;
    CHECK_INT(write_once(request).stored, ==, 1); /* nothing of the others was stored */
    recording_destroy(recording);
    history_setup_end(&scene);
}

TEST(an_error_of_the_store_reaches_the_sender_who_may_repeat) {
    struct recording *recording = one_window(0);
    struct sonde_diag diag = {0};
    history_setup_begin(&scene, true);
    fake_store_fail_next(scene.store, SONDE_UNAVAILABLE);
    CHECK_INT(history_try_write(&scene, recording_request(recording), &diag), ==,
              SONDE_UNAVAILABLE);
    CHECK_STR(diag.text, "the fake store fails");
    CHECK_INT(write_once(recording_request(recording)).stored, ==, 1);
    recording_destroy(recording);
    history_setup_end(&scene);
}

/* ---- Many messages in one call ---- */

#define MESSAGES 20

static struct {
    struct recording *recordings[MESSAGES];
    uint32_t sent, answered;
    bool in_order;
} flow;

static void on_sent(void *context, struct client_call *call) {
    flow.sent++;
    client_call_send(
        call, flow.sent < MESSAGES ? &recording_request(flow.recordings[flow.sent])->base : NULL);
}

static bool on_answer(void *context, struct client_call *call, const ProtobufCMessage *message) {
    const Sonde__V1__WriteResponse *response = (const void *)message;
    flow.in_order = flow.in_order && response->delivery == flow.answered && response->stored == 1;
    flow.answered++;
    return true;
}

static bool is_over;

static void on_end(void *context, sonde_err err, const struct sonde_diag *diag) {
    __atomic_store_n(&is_over, err == SONDE_OK, __ATOMIC_SEQ_CST);
}

static bool has_ended(void *context) {
    return __atomic_load_n(&is_over, __ATOMIC_SEQ_CST);
}

TEST(messages_of_one_call_are_acknowledged_in_order) {
    static const struct client_callbacks callbacks = {.on_message = on_answer, .on_end = on_end};
    history_setup_begin(&scene, true);
    flow.in_order = true;
    for (uint32_t i = 0; i < MESSAGES; i++) {
        flow.recordings[i] = one_window(1000 + i);
        recording_request(flow.recordings[i])->delivery = i;
    }
    CHECK(client_call_start_sending(scene.base.client, &client_write,
                                    &recording_request(flow.recordings[0])->base, 30000, NULL,
                                    &callbacks, on_sent, NULL) != NULL);
    CHECK(eventually(has_ended, NULL));
    CHECK_INT(flow.answered, ==, MESSAGES);
    CHECK(flow.in_order);
    CHECK_STR(sum(), "main;work 2000\n");
    for (uint32_t i = 0; i < MESSAGES; i++)
        recording_destroy(flow.recordings[i]);
    history_setup_end(&scene);
}
